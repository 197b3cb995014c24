package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// CancelInvocation stops an agent below the root and returns once it has ended.
func (s *Server) CancelInvocation(
	ctx context.Context, req *apiv1.CancelInvocationRequest,
) (*apiv1.CancelInvocationResponse, error) {
	ended, err := s.sessions.CancelInvocation(ctx, req.GetSessionId(), req.GetInvocationId())
	if err != nil {
		return nil, err
	}
	return &apiv1.CancelInvocationResponse{Invocation: invocation(ended)}, nil
}
