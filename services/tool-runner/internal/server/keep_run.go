package server

import (
	"context"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// KeepRun keeps a held run for its next harness.
func (s *Server) KeepRun(_ context.Context, req *toolrunnerv1.KeepRunRequest) (*toolrunnerv1.KeepRunResponse, error) {
	if err := s.runner.KeepRun(req.GetSessionId(), req.GetRunId()); err != nil {
		return nil, err
	}
	return &toolrunnerv1.KeepRunResponse{}, nil
}
