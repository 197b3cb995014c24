package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/issue/internal/core/issues"
)

// ListIssueUpdates lists the updates of an issue.
func (s *Server) ListIssueUpdates(ctx context.Context,
	req *apiv1.ListIssueUpdatesRequest,
) (*apiv1.ListIssueUpdatesResponse, error) {
	p, err := s.issues.Updates(ctx, ref(ctx, req), req.GetLimit(), req.GetCursor())
	if err != nil {
		return nil, err
	}
	items := mapped(p.Items, func(u issues.Update) *apiv1.IssueUpdate { return update(u, req.GetNumber()) })
	return &apiv1.ListIssueUpdatesResponse{Items: items, NextCursor: p.NextCursor(), HasMore: p.HasMore()}, nil
}

// AddIssueUpdate adds a comment.
func (s *Server) AddIssueUpdate(
	ctx context.Context, req *apiv1.AddIssueUpdateRequest,
) (*apiv1.AddIssueUpdateResponse, error) {
	visibility := visibilityNames.of(req.GetVisibility())
	if visibility == "" {
		visibility = issues.ForAll
	}
	u, _, err := s.issues.Comment(ctx, ref(ctx, req), req.GetBody(), visibility)
	if err != nil {
		return nil, err
	}
	return &apiv1.AddIssueUpdateResponse{Update: update(u, req.GetNumber())}, nil
}
