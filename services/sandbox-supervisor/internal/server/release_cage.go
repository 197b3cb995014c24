package server

import (
	"context"

	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
	"kaged.dev/services/sandbox-supervisor/internal/core"

	"kaged.dev/pkg/contract"
)

// ReleaseCage releases a cage and reports its leftovers.
func (s *Server) ReleaseCage(
	ctx context.Context,
	req *sandboxsupervisorv1.ReleaseCageRequest,
) (*sandboxsupervisorv1.ReleaseCageResponse, error) {
	found, err := s.supervisor.ReleaseCage(
		ctx,
		req.GetCageId(),
		core.Whose{Session: req.GetSessionId(), Project: req.GetProjectId()},
	)
	if err != nil {
		return nil, err
	}
	return &sandboxsupervisorv1.ReleaseCageResponse{Found: contract.FindingsProto(found)}, nil
}
