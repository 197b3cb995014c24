package server

import (
	"context"

	"kaged.dev/pkg/contract"

	"kaged.dev/services/lsp-pool/internal/core"

	lsppoolv1 "kaged.dev/proto/gen/kaged/lsppool/v1"
)

// StopServers ends servers and returns when they are gone.
func (s *Server) StopServers(
	ctx context.Context, req *lsppoolv1.StopServersRequest,
) (*lsppoolv1.StopServersResponse, error) {
	list := s.pool.Stop(ctx, core.Filter{ProjectID: req.GetProjectId(), Root: req.GetRoot(), Lang: req.GetLang()})
	return &lsppoolv1.StopServersResponse{Servers: contract.LanguageServersProto(list)}, nil
}
