package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// UpdateMessage sets whether compactions must keep a message.
func (s *Server) UpdateMessage(ctx context.Context, req *apiv1.UpdateMessageRequest) (*apiv1.UpdateMessageResponse,
	error,
) {
	m, err := s.sessions.KeepMessage(ctx, req.GetSessionId(), req.GetMessageId(), req.AlwaysKeep)
	if err != nil {
		return nil, err
	}
	return &apiv1.UpdateMessageResponse{Message: message(m, answerBytes)}, nil
}
