package server

import (
	"context"

	"kaged.dev/pkg/page"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// ListSessions returns a page of a project's sessions, newest first.
func (s *Server) ListSessions(
	ctx context.Context, req *apiv1.ListSessionsRequest,
) (*apiv1.ListSessionsResponse, error) {
	p, err := s.sessions.List(ctx, req.GetProjectId(), req.GetLimit(), req.GetCursor())
	if err != nil {
		return nil, err
	}
	return &apiv1.ListSessionsResponse{
		Items: page.Map(p, summary).Items, NextCursor: p.NextCursor(), HasMore: p.HasMore(),
	}, nil
}
