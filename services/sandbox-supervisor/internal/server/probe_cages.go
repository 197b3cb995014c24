package server

import (
	"context"

	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

// ProbeCages reports the layers of cages that this machine offers.
func (s *Server) ProbeCages(
	ctx context.Context,
	_ *sandboxsupervisorv1.ProbeCagesRequest,
) (*sandboxsupervisorv1.ProbeCagesResponse, error) {
	return probeToProto(s.supervisor.ProbeCages(ctx)), nil
}
