package server

import (
	"context"

	"kaged.dev/pkg/page"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// ListProjects lists the registered projects by id, page by page.
func (s *Server) ListProjects(
	ctx context.Context, req *apiv1.ListProjectsRequest,
) (*apiv1.ListProjectsResponse, error) {
	p, err := s.projects.List(ctx, owner(ctx), req.GetLimit(), req.GetCursor())
	if err != nil {
		return nil, err
	}
	return &apiv1.ListProjectsResponse{
		Items: page.Map(p, summary).Items, NextCursor: p.NextCursor(), HasMore: p.HasMore(),
	}, nil
}
