package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// GetInvocation returns one invocation with its steps.
func (s *Server) GetInvocation(
	ctx context.Context, req *apiv1.GetInvocationRequest,
) (*apiv1.GetInvocationResponse, error) {
	found, err := s.sessions.Invocation(ctx, req.GetSessionId(), req.GetInvocationId())
	if err != nil {
		return nil, err
	}
	return &apiv1.GetInvocationResponse{Invocation: invocation(found)}, nil
}
