package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/issue/internal/core/issues"
)

// CreateIssue creates an issue.
func (s *Server) CreateIssue(ctx context.Context, req *apiv1.CreateIssueRequest) (*apiv1.CreateIssueResponse, error) {
	i, created, err := s.issues.Create(ctx, project(ctx, req.GetProjectId()), issues.Draft{
		Title: req.GetTitle(), Body: req.GetBody(), ClientID: req.GetClientId(), ImportedFrom: req.GetImportedFrom(),
	})
	if err != nil {
		return nil, err
	}
	return &apiv1.CreateIssueResponse{Issue: whole(i, nil), Created: created}, nil
}
