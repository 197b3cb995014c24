package sessions

import (
	"context"

	"kaged.dev/services/session-manager/internal/sessions/core/live"
)

// Hold is a socket's hold on a session, which keeps the session live.
type Hold struct {
	*live.Attachment
	release func()
}

// Attach holds the caller's session for a socket until [Hold.Detach]. It fails with not_found, with gone for an
// ended session, with session_attached if another socket keeps its hold and takeover is not set, and with
// stale_lease.
func (s *Service) Attach(ctx context.Context, id string, takeover bool) (*Hold, error) {
	l, release, err := s.acquire(ctx, id)
	if err != nil {
		return nil, err
	}
	a, err := l.Attach(ctx, takeover, s.AttachWait)
	if err != nil {
		release()
		return nil, err
	}
	return &Hold{Attachment: a, release: release}, nil
}

// Detach ends the hold. It is idempotent.
func (h *Hold) Detach() {
	h.Attachment.Detach()
	h.release()
}
