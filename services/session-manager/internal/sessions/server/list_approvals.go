package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// ListApprovals returns a page of a session's approvals, newest first.
func (s *Server) ListApprovals(
	ctx context.Context, req *apiv1.ListApprovalsRequest,
) (*apiv1.ListApprovalsResponse, error) {
	p, err := s.sessions.Approvals(ctx, req.GetSessionId(), req.GetState(), req.GetLimit(), req.GetCursor())
	if err != nil {
		return nil, err
	}
	return &apiv1.ListApprovalsResponse{Items: approvals(p.Items), NextCursor: p.NextCursor(), HasMore: p.HasMore()}, nil
}
