package projectservice

import (
	"context"

	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// ApproveProject makes a project's files the approved version.
func (s *Server) ApproveProject(ctx context.Context, req *sessionmanagerv1.ApproveProjectRequest) (*sessionmanagerv1.ApproveProjectResponse, error) {
	user, err := owner(ctx)
	if err != nil {
		return nil, err
	}
	a, err := s.projects.Approve(ctx, user, req.GetId(), req.GetHash())
	if err != nil {
		return nil, err
	}
	return &sessionmanagerv1.ApproveProjectResponse{Hash: a.Hash, ApprovedAt: a.At, ApprovedBy: a.By}, nil
}
