package server

import (
	"context"

	"kaged.dev/pkg/contract"

	lsppoolv1 "kaged.dev/proto/gen/kaged/lsppool/v1"
)

// StopServers ends servers and returns when they are gone.
func (s *Server) StopServers(
	ctx context.Context, req *lsppoolv1.StopServersRequest,
) (*lsppoolv1.StopServersResponse, error) {
	which, err := filterFromProto(req.GetProjectId(), req.GetRoot(), req.GetLang(), req.GetView())
	if err != nil {
		return nil, err
	}
	return &lsppoolv1.StopServersResponse{Servers: contract.LanguageServersProto(s.pool.Stop(ctx, which))}, nil
}
