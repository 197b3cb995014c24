package sessionservice

import (
	"context"

	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// ListApprovals lists the tool calls an operator was asked about, newest first, a page at a time.
func (s *Server) ListApprovals(ctx context.Context, req *sessionmanagerv1.ListApprovalsRequest) (*sessionmanagerv1.ListApprovalsResponse, error) {
	if err := known(ctx); err != nil {
		return nil, err
	}
	p, err := s.sessions.Approvals(ctx, req.GetSessionId(), req.GetState(), req.GetLimit(), req.GetCursor())
	if err != nil {
		return nil, err
	}
	return &sessionmanagerv1.ListApprovalsResponse{Items: approvals(p.Items), NextCursor: p.NextCursor(), HasMore: p.HasMore()}, nil
}
