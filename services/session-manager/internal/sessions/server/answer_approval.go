package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// AnswerApproval approves or denies a pending tool call.
func (s *Server) AnswerApproval(
	ctx context.Context, req *apiv1.AnswerApprovalRequest,
) (*apiv1.AnswerApprovalResponse, error) {
	a, err := s.sessions.Answer(ctx, req.GetSessionId(), req.GetApprovalId(), answerOf(req))
	if err != nil {
		return nil, err
	}
	return &apiv1.AnswerApprovalResponse{Approval: approval(a)}, nil
}
