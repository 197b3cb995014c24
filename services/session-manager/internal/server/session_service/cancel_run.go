package sessionservice

import (
	"context"

	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// CancelRun stops a run and returns when it is over.
func (s *Server) CancelRun(ctx context.Context, req *sessionmanagerv1.CancelRunRequest) (*sessionmanagerv1.CancelRunResponse, error) {
	if err := known(ctx); err != nil {
		return nil, err
	}
	ended, err := s.sessions.Cancel(ctx, req.GetSessionId(), req.GetRunId())
	if err != nil {
		return nil, err
	}
	return &sessionmanagerv1.CancelRunResponse{Run: run(ended)}, nil
}
