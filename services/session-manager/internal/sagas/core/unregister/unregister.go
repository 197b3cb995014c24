// Package unregister removes a project and ends its sessions. It is a saga: each session is ended by the process
// that holds it; then one transaction removes the project, unless another session was created meanwhile.
package unregister

import (
	"context"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
)

// Projects looks up projects.
type Projects interface {
	// Find returns a project. It fails with not_found.
	Find(ctx context.Context, owner, id string) (projects.Project, error)
}

// Workspace is the workspace of the project's files.
type Workspace interface {
	// UnloadProject ends the language servers of a project in a folder, and returns the audit records about that.
	UnloadProject(ctx context.Context, workspace, project, root string) ([]contract.Record, error)
}

// Sessions ends sessions.
type Sessions interface {
	// EndProjectSessions ends every open session of the project, with its run and its processes, and returns their number.
	EndProjectSessions(ctx context.Context, owner, projectID string) (int, error)
}

// Store removes projects.
type Store interface {
	// RemoveProject removes a project and appends audit records. It returns false, without a change, if the project
	// has open sessions. It fails with not_found.
	RemoveProject(ctx context.Context, owner, id string, records []audit.Record) (bool, error)
}

// Saga unregisters projects. It is safe for concurrent use and starts no goroutine.
type Saga struct {
	projects Projects
	sessions Sessions
	store    Store
	files    Workspace
	removed  func(owner, id string)
}

// New returns a Saga. removed is called for each removed project.
func New(p Projects, s Sessions, store Store, files Workspace, removed func(owner, id string)) *Saga {
	return &Saga{p, s, store, files, removed}
}

// Removed is an unregistered project.
type Removed struct {
	ID, Path      string
	SessionsEnded int
	// UnregisteredAt is in Unix milliseconds.
	UnregisteredAt int64
}

// maxEndings bounds the attempts if sessions are created meanwhile.
const maxEndings = 5

// Unregister ends the project's sessions and removes it from the registry; it changes no file. It fails with
// bad_request (details.reason confirm_required) without confirm, with not_found, and with conflict if sessions are
// created again and again. After a failure the project is still registered, and some of its sessions may have
// ended; repeating the request continues from there.
func (s *Saga) Unregister(ctx context.Context, owner, id string, confirm bool) (Removed, error) {
	if !confirm {
		return Removed{},
			fault.New(fault.BadRequest, "Unregistering a project ends its sessions; repeat the request with confirm=true.").
				With("reason", "confirm_required")
	}
	p, err := s.projects.Find(ctx, owner, id)
	if err != nil {
		return Removed{}, err
	}
	ended := 0
	for range maxEndings {
		n, err := s.sessions.EndProjectSessions(ctx, owner, id)
		if err != nil {
			return Removed{}, err
		}
		ended += n
		r := audit.New(ctx, "project.unregistered", map[string]any{"path": p.Path, "sessions_ended": ended})
		r.UserID, r.ProjectID = owner, id
		records := append(s.unload(ctx, p), r)
		removed, err := s.store.RemoveProject(ctx, owner, id, records)
		if err != nil {
			return Removed{}, err
		}
		if removed {
			s.removed(owner, id)
			return Removed{ID: id, Path: p.Path, SessionsEnded: ended, UnregisteredAt: r.TS}, nil
		}
	}
	return Removed{}, fault.New(fault.Conflict, "New sessions of the project were created meanwhile; try again.")
}

// unloadTimeout bounds the ending of a project's language servers.
const unloadTimeout = 10 * time.Second

// unload ends the language servers of a project and returns the audit records about that. The list is empty for an
// unreachable workspace: its servers end with it or after their idle time.
func (s *Saga) unload(ctx context.Context, p projects.Project) (records []audit.Record) {
	bounded, cancel := context.WithTimeout(ctx, unloadTimeout)
	defer cancel()
	list, _ := s.files.UnloadProject(bounded, p.Workspace, p.ID, p.Path)
	request := ident.CallerFrom(ctx).RequestID
	for _, one := range list {
		r := audit.Of(one)
		r.UserID, r.RequestID, r.ProjectID = p.Owner, request, p.ID
		records = append(records, r)
	}
	return records
}
