package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// GetIssue returns one issue with its latest updates.
func (s *Server) GetIssue(ctx context.Context, req *apiv1.GetIssueRequest) (*apiv1.GetIssueResponse, error) {
	i, updates, err := s.issues.Get(ctx, ref(ctx, req))
	if err != nil {
		return nil, err
	}
	return &apiv1.GetIssueResponse{Issue: detail(i, updates)}, nil
}
