package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// GetRun returns one run with its steps and first invocations.
func (s *Server) GetRun(ctx context.Context, req *apiv1.GetRunRequest) (*apiv1.GetRunResponse, error) {
	found, err := s.sessions.Run(ctx, req.GetSessionId(), req.GetRunId())
	if err != nil {
		return nil, err
	}
	return &apiv1.GetRunResponse{Run: run(found)}, nil
}
