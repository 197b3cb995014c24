package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/session-manager/internal/sessions/core/sessions"
)

// PostMessage stores the operator's message and starts a run.
func (s *Server) PostMessage(ctx context.Context, req *apiv1.PostMessageRequest) (*apiv1.PostMessageResponse, error) {
	posted, err := s.sessions.Post(ctx, sessions.Post{
		SessionID: req.GetSessionId(), Content: req.Content, Model: req.ModelOverride,
		MaxSteps: req.MaxStepsOverride, MaxOutputTokens: req.MaxOutputTokensOverride, Steer: req.GetSteer(),
	})
	if err != nil {
		return nil, err
	}
	resp := &apiv1.PostMessageResponse{
		Id: posted.MessageID, SessionId: posted.SessionID, AcceptedAt: posted.AcceptedAt, RunId: posted.RunID,
		Steered: posted.Steered,
	}
	if full := posted.Full; full != nil {
		resp.Queued, resp.Reason = true, full.Reason
		resp.RunningCount, resp.Limit = int32(full.Running), int32(full.Limit)
	}
	return resp, nil
}
