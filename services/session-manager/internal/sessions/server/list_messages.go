package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// ListMessages lists the messages in order, a page at a time.
func (s *Server) ListMessages(
	ctx context.Context, req *apiv1.ListMessagesRequest,
) (*apiv1.ListMessagesResponse, error) {
	p, err := s.sessions.Messages(ctx, req.GetSessionId(), req.GetSince(), req.GetLimit(), req.GetCursor())
	if err != nil {
		return nil, err
	}
	return &apiv1.ListMessagesResponse{Items: messages(p.Items), NextCursor: p.NextCursor(), HasMore: p.HasMore()}, nil
}
