package server

import (
	"context"

	"kaged.dev/pkg/page"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// ListRuns returns a page of a session's runs, oldest first.
func (s *Server) ListRuns(ctx context.Context, req *apiv1.ListRunsRequest) (*apiv1.ListRunsResponse, error) {
	p, err := s.sessions.Runs(ctx, req.GetSessionId(), req.GetLimit(), req.GetCursor())
	if err != nil {
		return nil, err
	}
	return &apiv1.ListRunsResponse{Items: page.Map(p, runSummary).Items, NextCursor: p.NextCursor(), HasMore: p.HasMore()},
		nil
}
