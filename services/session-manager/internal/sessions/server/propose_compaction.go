package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/session-manager/internal/sessions/core/sessions"
)

// ProposeCompaction returns a proposal for the compaction of an idle session.
func (s *Server) ProposeCompaction(
	ctx context.Context, req *apiv1.ProposeCompactionRequest,
) (*apiv1.ProposeCompactionResponse, error) {
	a, err := s.sessions.Compact(ctx, sessions.CompactOrder{
		Session: req.GetSessionId(), Agent: req.GetAgentPath(), Strategy: req.GetStrategy(), Dry: true,
	})
	if err != nil {
		return nil, err
	}
	return &apiv1.ProposeCompactionResponse{Answer: compactAnswer(a)}, nil
}
