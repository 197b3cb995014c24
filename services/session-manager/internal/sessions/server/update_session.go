package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// UpdateSession changes the label, overrides, budget and issue of a session; absent fields stay unchanged.
func (s *Server) UpdateSession(
	ctx context.Context, req *apiv1.UpdateSessionRequest,
) (*apiv1.UpdateSessionResponse, error) {
	edit, err := editFromProto(req)
	if err != nil {
		return nil, err
	}
	changed, err := s.sessions.Update(ctx, req.GetId(), edit)
	if err != nil {
		return nil, err
	}
	shown, err := s.whole(ctx, changed)
	if err != nil {
		return nil, err
	}
	return &apiv1.UpdateSessionResponse{Session: shown}, nil
}
