package sessionservice

import (
	"context"

	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/session-manager/internal/core/page"
)

// ListRuns lists the runs in order, a page at a time.
func (s *Server) ListRuns(ctx context.Context, req *sessionmanagerv1.ListRunsRequest) (*sessionmanagerv1.ListRunsResponse, error) {
	if err := known(ctx); err != nil {
		return nil, err
	}
	p, err := s.sessions.Runs(ctx, req.GetSessionId(), req.GetLimit(), req.GetCursor())
	if err != nil {
		return nil, err
	}
	return &sessionmanagerv1.ListRunsResponse{Items: page.Map(p, runSummary).Items, NextCursor: p.NextCursor(), HasMore: p.HasMore()}, nil
}
