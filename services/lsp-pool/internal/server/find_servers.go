package server

import (
	"context"

	lsppoolv1 "kaged.dev/proto/gen/kaged/lsppool/v1"
)

// FindServers looks for the programs of the servers.
func (s *Server) FindServers(
	ctx context.Context, _ *lsppoolv1.FindServersRequest,
) (*lsppoolv1.FindServersResponse, error) {
	list, err := s.pool.Find(ctx)
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
