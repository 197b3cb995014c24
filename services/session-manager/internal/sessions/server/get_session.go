package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// GetSession returns one session, which may have ended.
func (s *Server) GetSession(ctx context.Context, req *apiv1.GetSessionRequest) (*apiv1.GetSessionResponse, error) {
	found, err := s.sessions.Get(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	shown, err := s.whole(ctx, found)
	if err != nil {
		return nil, err
	}
	return &apiv1.GetSessionResponse{Session: shown}, nil
}
