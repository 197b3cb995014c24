package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// CancelRun stops a run and returns once it has ended.
func (s *Server) CancelRun(ctx context.Context, req *apiv1.CancelRunRequest) (*apiv1.CancelRunResponse, error) {
	ended, err := s.sessions.Cancel(ctx, req.GetSessionId(), req.GetRunId())
	if err != nil {
		return nil, err
	}
	return &apiv1.CancelRunResponse{Run: run(ended)}, nil
}
