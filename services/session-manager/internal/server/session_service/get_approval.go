package sessionservice

import (
	"context"

	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// GetApproval returns one request for approval.
func (s *Server) GetApproval(ctx context.Context, req *sessionmanagerv1.GetApprovalRequest) (*sessionmanagerv1.GetApprovalResponse, error) {
	if err := known(ctx); err != nil {
		return nil, err
	}
	a, err := s.sessions.Approval(ctx, req.GetSessionId(), req.GetApprovalId())
	if err != nil {
		return nil, err
	}
	return &sessionmanagerv1.GetApprovalResponse{Approval: approval(a)}, nil
}
