package server

import (
	"context"

	"kaged.dev/pkg/contract"

	lsppoolv1 "kaged.dev/proto/gen/kaged/lsppool/v1"
)

// ListServers lists the servers.
func (s *Server) ListServers(
	_ context.Context, req *lsppoolv1.ListServersRequest,
) (*lsppoolv1.ListServersResponse, error) {
	which, err := filterFromProto(req.GetProjectId(), req.GetRoot(), "", req.GetView())
	if err != nil {
		return nil, err
	}
	return &lsppoolv1.ListServersResponse{Servers: contract.LanguageServersProto(s.pool.Servers(which))}, nil
}
