package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// ListCompactions returns a page of a session's completed compactions, newest first.
func (s *Server) ListCompactions(
	ctx context.Context, req *apiv1.ListCompactionsRequest,
) (*apiv1.ListCompactionsResponse, error) {
	p, err := s.sessions.Compactions(ctx, req.GetSessionId(), req.GetAgentPath(), req.GetLimit(), req.GetCursor())
	if err != nil {
		return nil, err
	}
	return &apiv1.ListCompactionsResponse{
		Items: compactions(p.Items), NextCursor: p.NextCursor(), HasMore: p.HasMore(),
	}, nil
}
