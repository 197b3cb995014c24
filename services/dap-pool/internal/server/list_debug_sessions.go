package server

import (
	"context"

	dappoolv1 "kaged.dev/proto/gen/kaged/dappool/v1"
)

// ListDebugSessions says which debug sessions there are.
func (s *Server) ListDebugSessions(_ context.Context, req *dappoolv1.ListDebugSessionsRequest) (
	*dappoolv1.ListDebugSessionsResponse, error,
) {
	return &dappoolv1.ListDebugSessionsResponse{Sessions: infosToProto(s.pool.Sessions(req.GetSessionId()))}, nil
}
