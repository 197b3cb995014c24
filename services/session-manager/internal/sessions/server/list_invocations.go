package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// ListInvocations returns a page of a session's invocations, oldest first.
func (s *Server) ListInvocations(
	ctx context.Context, req *apiv1.ListInvocationsRequest,
) (*apiv1.ListInvocationsResponse, error) {
	p, err := s.sessions.Invocations(ctx, req.GetSessionId(), req.GetRunId(), req.GetLimit(), req.GetCursor())
	if err != nil {
		return nil, err
	}
	return &apiv1.ListInvocationsResponse{
		Items: invocations(p.Items), NextCursor: p.NextCursor(),
		HasMore: p.HasMore(),
	}, nil
}
