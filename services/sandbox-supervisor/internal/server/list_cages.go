package server

import (
	"context"

	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
	"kaged.dev/services/sandbox-supervisor/internal/core"

	"kaged.dev/pkg/contract/sandboxwire"
)

// ListCages lists the cages.
func (s *Server) ListCages(
	_ context.Context,
	req *sandboxsupervisorv1.ListCagesRequest,
) (*sandboxsupervisorv1.ListCagesResponse, error) {
	res := &sandboxsupervisorv1.ListCagesResponse{}
	for _, c := range s.supervisor.ListCages(core.Whose{Session: req.GetSessionId(), Project: req.GetProjectId()}) {
		res.Cages = append(res.Cages, sandboxwire.Cage(c))
	}
	return res, nil
}
