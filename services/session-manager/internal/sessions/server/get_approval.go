package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// GetApproval returns one approval.
func (s *Server) GetApproval(ctx context.Context, req *apiv1.GetApprovalRequest) (*apiv1.GetApprovalResponse, error) {
	a, err := s.sessions.Approval(ctx, req.GetSessionId(), req.GetApprovalId())
	if err != nil {
		return nil, err
	}
	return &apiv1.GetApprovalResponse{Approval: approval(a)}, nil
}
