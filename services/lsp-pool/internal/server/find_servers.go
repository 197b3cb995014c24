package server

import (
	"context"
	"path/filepath"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/lsp-pool/internal/core"

	lsppoolv1 "kaged.dev/proto/gen/kaged/lsppool/v1"
)

// FindServers looks for the programs of the servers.
func (s *Server) FindServers(
	ctx context.Context, req *lsppoolv1.FindServersRequest,
) (*lsppoolv1.FindServersResponse, error) {
	if !filepath.IsAbs(req.GetRoot()) {
		return nil, fault.New(fault.BadRequest, "Programs are looked for from an absolute path.")
	}
	list, err := s.pool.Find(ctx, core.View{Root: req.GetRoot()})
	if err != nil {
		return nil, err
	}
	res := &lsppoolv1.FindServersResponse{}
	for _, f := range list {
		res.Servers = append(res.Servers, &lsppoolv1.FoundServer{
			Lang: f.Lang, Command: f.Command, Program: valid(f.Program), CagedProgram: valid(f.CagedProgram),
			CagedReason: f.CagedReason, Install: f.Install,
		})
	}
	return res, nil
}
