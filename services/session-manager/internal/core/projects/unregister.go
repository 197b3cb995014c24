package projects

import (
	"context"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/core/audit"
)

// Removed is an unregistered project.
type Removed struct {
	ID, Path       string
	SessionsEnded  int
	UnregisteredAt int64
}

// maxEndings bounds how often sessions that appear while others are ended are ended too.
const maxEndings = 5

// Unregister ends the project's sessions and removes it from the registry; no file is touched. It fails with bad_request
// (details.reason confirm_required) without confirm, with not_found, and with conflict if sessions keep being created.
func (s *Service) Unregister(ctx context.Context, owner, id string, confirm bool) (Removed, error) {
	if !confirm {
		return Removed{}, fault.New(fault.BadRequest, "Unregistering a project ends its sessions; repeat the request with confirm=true.").
			With("reason", "confirm_required")
	}
	p, err := s.find(ctx, owner, id)
	if err != nil {
		return Removed{}, err
	}
	ended := 0
	for range maxEndings {
		n, err := s.Sessions.EndProjectSessions(ctx, owner, id)
		if err != nil {
			return Removed{}, err
		}
		ended += n
		r := audit.New(ctx, "project.unregistered", map[string]any{"path": p.Path, "sessions_ended": ended})
		r.UserID, r.ProjectID = owner, id
		deleted, err := s.Store.Delete(ctx, owner, id, r)
		if err != nil {
			return Removed{}, err
		}
		if deleted {
			return Removed{ID: id, Path: p.Path, SessionsEnded: ended, UnregisteredAt: r.TS}, nil
		}
	}
	return Removed{}, fault.New(fault.Conflict, "Sessions of the project keep being created; try again when they are not.")
}
