package sessionservice

import (
	"context"

	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/session-manager/internal/core/sessions"
)

// PostMessage stores the operator's message and starts a run.
func (s *Server) PostMessage(ctx context.Context, req *sessionmanagerv1.PostMessageRequest) (*sessionmanagerv1.PostMessageResponse, error) {
	if err := known(ctx); err != nil {
		return nil, err
	}
	posted, err := s.sessions.Post(ctx, sessions.Post{
		SessionID: req.GetSessionId(), Content: req.Content, Model: req.ModelOverride,
		MaxSteps: req.MaxStepsOverride, MaxOutputTokens: req.MaxOutputTokensOverride,
	})
	if err != nil {
		return nil, err
	}
	return &sessionmanagerv1.PostMessageResponse{
		Id: posted.MessageID, SessionId: posted.SessionID, AcceptedAt: posted.AcceptedAt, RunId: posted.RunID,
	}, nil
}
