package server

import (
	"context"

	"kaged.dev/pkg/contract"

	"kaged.dev/services/lsp-pool/internal/core"

	lsppoolv1 "kaged.dev/proto/gen/kaged/lsppool/v1"
)

// ListServers says which servers there are.
func (s *Server) ListServers(
	_ context.Context, req *lsppoolv1.ListServersRequest,
) (*lsppoolv1.ListServersResponse, error) {
	list := s.pool.Servers(core.Filter{ProjectID: req.GetProjectId(), Root: req.GetRoot()})
	return &lsppoolv1.ListServersResponse{Servers: contract.LanguageServersProto(list)}, nil
}
