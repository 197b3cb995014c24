package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/session-manager/internal/sessions/core/sessions"
)

// ListMessages returns a page of a session's messages.
func (s *Server) ListMessages(
	ctx context.Context, req *apiv1.ListMessagesRequest,
) (*apiv1.ListMessagesResponse, error) {
	p, before, err := s.sessions.Messages(ctx, req.GetSessionId(), sessions.MessageOrder{
		Since: req.GetSince(), NewestFirst: req.GetNewestFirst(),
	}, req.GetLimit(), req.GetCursor())
	if err != nil {
		return nil, err
	}
	return &apiv1.ListMessagesResponse{
		Items: messages(p.Items), NextCursor: p.NextCursor(), HasMore: p.HasMore(), TurnsBefore: before,
	}, nil
}
