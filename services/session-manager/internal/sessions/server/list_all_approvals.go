package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// ListAllApprovals returns a page of the approvals of all sessions of the caller, newest first.
func (s *Server) ListAllApprovals(
	ctx context.Context, req *apiv1.ListAllApprovalsRequest,
) (*apiv1.ListAllApprovalsResponse, error) {
	p, err := s.sessions.AllApprovals(ctx, req.GetState(), req.GetLimit(), req.GetCursor())
	if err != nil {
		return nil, err
	}
	return &apiv1.ListAllApprovalsResponse{
		Items: approvals(p.Items), NextCursor: p.NextCursor(), HasMore: p.HasMore(),
	}, nil
}
