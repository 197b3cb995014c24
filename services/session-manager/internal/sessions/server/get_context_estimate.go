package server

import (
	"context"

	"kaged.dev/pkg/optional"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// GetContextEstimate returns the estimated use of an agent's context window.
func (s *Server) GetContextEstimate(
	ctx context.Context, req *apiv1.GetContextEstimateRequest,
) (*apiv1.GetContextEstimateResponse, error) {
	e, err := s.sessions.ContextEstimate(ctx, req.GetSessionId(), req.GetAgentPath())
	if err != nil {
		return nil, err
	}
	out := &apiv1.GetContextEstimateResponse{
		InputTokens: e.Input, ContextWindow: optional.NonZero(e.Window), Fraction: share(e.Input+e.Reserved, e.Window),
		Algorithm: "fallback", ReservedOutputTokens: e.Reserved, AgentPath: e.AgentPath, ErrorFraction: e.Error,
	}
	if e.Calibrated {
		out.Algorithm = "calibrated"
	}
	return out, nil
}
