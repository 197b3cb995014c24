package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// GetProjectApproval compares a project's files with the approved version.
func (s *Server) GetProjectApproval(
	ctx context.Context, req *apiv1.GetProjectApprovalRequest,
) (*apiv1.GetProjectApprovalResponse, error) {
	a, err := s.projects.Approval(ctx, owner(ctx), req.GetId())
	if err != nil {
		return nil, err
	}
	return comparison(a), nil
}
