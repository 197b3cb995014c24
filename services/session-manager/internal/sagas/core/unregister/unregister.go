// Package unregister removes a project and ends its sessions. It is a saga: each session ends in the process that
// holds it, and only then one transaction removes the project, which fails to do so if another session was created
// meanwhile.
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

// Projects is the registry.
type Projects interface {
	// Find returns a project. It fails with not_found.
	Find(ctx context.Context, owner, id string) (projects.Project, error)
}

// Workspace is where the project's files are.
type Workspace interface {
	// UnloadProject ends the language servers of a project in a folder, and returns the records of that.
	UnloadProject(ctx context.Context, workspace, project, root string) ([]contract.Record, error)
}

// Sessions are ended.
type Sessions interface {
	// EndProjectSessions ends every open session of the project, with its run and its processes, and returns their number.
	EndProjectSessions(ctx context.Context, owner, projectID string) (int, error)
}

// Store removes projects.
type Store interface {
	// RemoveProject removes a project and appends records. It returns false, and changes nothing, while the project has
	// open sessions. It fails with not_found.
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

// New returns a Saga. removed is told of each removed project.
func New(p Projects, s Sessions, store Store, files Workspace, removed func(owner, id string)) *Saga {
	return &Saga{p, s, store, files, removed}
}

// Removed is an unregistered project.
type Removed struct {
	ID, Path      string
	SessionsEnded int
	// UnregisteredAt is in milliseconds since the Unix epoch.
	UnregisteredAt int64
}

// maxEndings bounds how often sessions are ended that are created while others end.
const maxEndings = 5

// Unregister ends the project's sessions and removes it from the registry; no file is touched. It fails with
// bad_request (details.reason confirm_required) without confirm, with not_found, and with conflict if sessions keep
// being created. After a failure the project is registered, and some of its sessions may have ended; the same
// request goes on from there.
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
	return Removed{}, fault.New(fault.Conflict, "Sessions of the project keep being created; try again when they are not.")
}

// unloadTimeout is how long a workspace may take to end the language servers of a project.
const unloadTimeout = 10 * time.Second

// unload ends the language servers of a project and returns the records of that. The list is empty for a lost
// workspace: its servers end with it or after their idle time.
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
