package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/issue/internal/core/issues"
)

// ListIssues lists a project's issues.
func (s *Server) ListIssues(ctx context.Context, req *apiv1.ListIssuesRequest) (*apiv1.ListIssuesResponse, error) {
	p, total, err := s.issues.List(ctx, project(ctx, req.GetProjectId()), issues.Listing{
		Query: req.GetQ(), Status: req.GetStatus(), Limit: req.GetLimit(), Cursor: req.GetCursor(), Offset: req.GetOffset(),
		Total: req.GetWithTotal(),
	})
	if err != nil {
		return nil, err
	}
	resp := &apiv1.ListIssuesResponse{Items: mapped(p.Items, summary), NextCursor: p.NextCursor(), HasMore: p.HasMore()}
	if req.GetWithTotal() {
		resp.Total = &total
	}
	return resp, nil
}
