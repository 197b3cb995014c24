package projectservice

import (
	"context"

	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/session-manager/internal/core/page"
)

// ListProjects lists the registered projects by id, a page at a time.
func (s *Server) ListProjects(ctx context.Context, req *sessionmanagerv1.ListProjectsRequest) (*sessionmanagerv1.ListProjectsResponse, error) {
	user, err := owner(ctx)
	if err != nil {
		return nil, err
	}
	p, err := s.projects.List(ctx, user, req.GetLimit(), req.GetCursor())
	if err != nil {
		return nil, err
	}
	return &sessionmanagerv1.ListProjectsResponse{Items: page.Map(p, summary).Items, NextCursor: p.NextCursor(), HasMore: p.HasMore()}, nil
}
