package projectservice

import (
	"context"

	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// GetProjectApproval compares a project's files with the approved version.
func (s *Server) GetProjectApproval(ctx context.Context, req *sessionmanagerv1.GetProjectApprovalRequest) (*sessionmanagerv1.GetProjectApprovalResponse, error) {
	user, err := owner(ctx)
	if err != nil {
		return nil, err
	}
	a, err := s.projects.Approval(ctx, user, req.GetId())
	if err != nil {
		return nil, err
	}
	return comparison(a), nil
}
