package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// GetLedger returns a page of a session's ledger.
func (s *Server) GetLedger(ctx context.Context, req *apiv1.GetLedgerRequest) (*apiv1.GetLedgerResponse, error) {
	p, err := s.sessions.Ledger(ctx, req.GetSessionId(), req.GetAgentPath(), req.GetKind(), req.GetLimit(),
		req.GetCursor())
	if err != nil {
		return nil, err
	}
	return &apiv1.GetLedgerResponse{Items: ledger(p.Items), NextCursor: p.NextCursor(), HasMore: p.HasMore()}, nil
}
