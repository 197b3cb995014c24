package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// ListStandingApprovals returns a page of the caller's standing approvals, newest first.
func (s *Server) ListStandingApprovals(
	ctx context.Context, req *apiv1.ListStandingApprovalsRequest,
) (*apiv1.ListStandingApprovalsResponse, error) {
	p, err := s.sessions.StandingApprovals(
		ctx, req.GetProjectId(), req.GetSessionId(), req.GetRevoked(), req.GetLimit(), req.GetCursor(),
	)
	if err != nil {
		return nil, err
	}
	return &apiv1.ListStandingApprovalsResponse{
		Items: standingApprovals(p.Items), NextCursor: p.NextCursor(), HasMore: p.HasMore(),
	}, nil
}

// RevokeStandingApproval revokes a standing approval.
func (s *Server) RevokeStandingApproval(
	ctx context.Context, req *apiv1.RevokeStandingApprovalRequest,
) (*apiv1.RevokeStandingApprovalResponse, error) {
	revoked, err := s.sessions.RevokeStanding(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	return &apiv1.RevokeStandingApprovalResponse{StandingApproval: standingApproval(revoked)}, nil
}
