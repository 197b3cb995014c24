package server

import (
	"context"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// SignalProcess sends a signal to a command of a session.
func (s *Server) SignalProcess(
	ctx context.Context, req *toolrunnerv1.SignalProcessRequest,
) (*toolrunnerv1.SignalProcessResponse, error) {
	if err := s.runner.SignalProcess(ctx, req.GetSessionId(), req.GetProcessId(), req.GetSignal()); err != nil {
		return nil, err
	}
	return &toolrunnerv1.SignalProcessResponse{}, nil
}
