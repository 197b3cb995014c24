package server

import (
	"context"

	"kaged.dev/pkg/contract"

	dappoolv1 "kaged.dev/proto/gen/kaged/dappool/v1"
)

// ListDebugSessions lists the debug sessions.
func (s *Server) ListDebugSessions(_ context.Context, req *dappoolv1.ListDebugSessionsRequest) (
	*dappoolv1.ListDebugSessionsResponse, error,
) {
	list := contract.DebugSessionsProto(s.pool.Sessions(req.GetSessionId()))
	return &dappoolv1.ListDebugSessionsResponse{Sessions: list}, nil
}
