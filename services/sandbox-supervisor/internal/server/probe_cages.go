package server

import (
	"context"

	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

// ProbeCages says what this machine gives to cages.
func (s *Server) ProbeCages(ctx context.Context, _ *sandboxsupervisorv1.ProbeCagesRequest) (*sandboxsupervisorv1.ProbeCagesResponse, error) {
	return probeToProto(s.supervisor.ProbeCages(ctx)), nil
}
