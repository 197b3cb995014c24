package sessionservice

import (
	"context"

	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// GetRun returns one run in full.
func (s *Server) GetRun(ctx context.Context, req *sessionmanagerv1.GetRunRequest) (*sessionmanagerv1.GetRunResponse, error) {
	if err := known(ctx); err != nil {
		return nil, err
	}
	found, err := s.sessions.Run(ctx, req.GetSessionId(), req.GetRunId())
	if err != nil {
		return nil, err
	}
	return &sessionmanagerv1.GetRunResponse{Run: run(found)}, nil
}
