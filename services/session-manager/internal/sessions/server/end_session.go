package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// EndSession ends the session, cancels its run and kills its commands.
func (s *Server) EndSession(ctx context.Context, req *apiv1.EndSessionRequest) (*apiv1.EndSessionResponse, error) {
	ended, err := s.sessions.End(ctx, req.GetId(), req.GetConfirm())
	if err != nil {
		return nil, err
	}
	return &apiv1.EndSessionResponse{Session: session(ended)}, nil
}
