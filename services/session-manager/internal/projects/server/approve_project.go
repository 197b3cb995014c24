package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// ApproveProject makes a project's files the approved version.
func (s *Server) ApproveProject(
	ctx context.Context, req *apiv1.ApproveProjectRequest,
) (*apiv1.ApproveProjectResponse, error) {
	a, err := s.projects.Approve(ctx, owner(ctx), req.GetId(), req.GetHash())
	if err != nil {
		return nil, err
	}
	return &apiv1.ApproveProjectResponse{Hash: a.Hash, ApprovedAt: a.At, ApprovedBy: a.By}, nil
}
