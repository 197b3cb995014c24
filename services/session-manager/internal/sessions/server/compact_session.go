package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/session-manager/internal/sessions/core/sessions"
)

// CompactSession compacts the conversation of an idle session, or returns a proposal.
func (s *Server) CompactSession(ctx context.Context, req *apiv1.CompactSessionRequest) (*apiv1.CompactSessionResponse,
	error,
) {
	a, err := s.sessions.Compact(ctx, sessions.CompactOrder{
		Session: req.GetSessionId(), Agent: req.GetAgentPath(), Strategy: req.GetStrategy(), Dry: req.GetDryRun(),
	})
	if err != nil {
		return nil, err
	}
	return compactAnswer(a), nil
}
