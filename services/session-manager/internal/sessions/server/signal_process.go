package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// SignalProcess sends a signal to a running command of a session.
func (s *Server) SignalProcess(
	ctx context.Context, req *apiv1.SignalProcessRequest,
) (*apiv1.SignalProcessResponse, error) {
	if err := s.sessions.SignalProcess(ctx, req.GetSessionId(), req.GetProcessId(), req.GetSignal()); err != nil {
		return nil, err
	}
	return &apiv1.SignalProcessResponse{}, nil
}
