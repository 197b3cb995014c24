package sessionservice

import (
	"context"

	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// UpdateSession changes the label and the overrides; what is left out stays.
func (s *Server) UpdateSession(ctx context.Context, req *sessionmanagerv1.UpdateSessionRequest) (*sessionmanagerv1.UpdateSessionResponse, error) {
	if err := known(ctx); err != nil {
		return nil, err
	}
	edit, err := editFromProto(req)
	if err != nil {
		return nil, err
	}
	changed, err := s.sessions.Update(ctx, req.GetId(), edit)
	if err != nil {
		return nil, err
	}
	return &sessionmanagerv1.UpdateSessionResponse{Session: session(changed)}, nil
}
