package sessionservice

import (
	"context"

	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// ListMessages lists the messages in order, a page at a time.
func (s *Server) ListMessages(ctx context.Context, req *sessionmanagerv1.ListMessagesRequest) (*sessionmanagerv1.ListMessagesResponse, error) {
	if err := known(ctx); err != nil {
		return nil, err
	}
	p, err := s.sessions.Messages(ctx, req.GetSessionId(), req.GetSince(), req.GetLimit(), req.GetCursor())
	if err != nil {
		return nil, err
	}
	return &sessionmanagerv1.ListMessagesResponse{Items: messages(p.Items), NextCursor: p.NextCursor(), HasMore: p.HasMore()}, nil
}
