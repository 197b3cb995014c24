package server

import (
	"context"

	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"

	"kaged.dev/pkg/contract/sandboxwire"
)

// EndProcess ends one process.
func (s *Server) EndProcess(
	ctx context.Context,
	req *sandboxsupervisorv1.EndProcessRequest,
) (*sandboxsupervisorv1.EndProcessResponse, error) {
	process, err := s.supervisor.Detached(req.GetProcessId())
	if err != nil {
		return nil, err
	}
	if err := process.End(ctx); err != nil {
		return nil, err
	}
	return &sandboxsupervisorv1.EndProcessResponse{Process: sandboxwire.Process(process.Info())}, nil
}
