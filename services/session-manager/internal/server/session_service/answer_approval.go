package sessionservice

import (
	"context"

	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// AnswerApproval allows or refuses a tool call that waits.
func (s *Server) AnswerApproval(ctx context.Context, req *sessionmanagerv1.AnswerApprovalRequest) (*sessionmanagerv1.AnswerApprovalResponse, error) {
	if err := known(ctx); err != nil {
		return nil, err
	}
	a, err := s.sessions.Answer(ctx, req.GetSessionId(), req.GetApprovalId(), req.GetDecision(), req.GetComment())
	if err != nil {
		return nil, err
	}
	return &sessionmanagerv1.AnswerApprovalResponse{Approval: approval(a)}, nil
}
