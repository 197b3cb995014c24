package server

import (
	"context"

	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
	"kaged.dev/services/sandbox-supervisor/internal/core"

	"kaged.dev/pkg/contract"
)

// EndOwner ends all processes and cages of a session, a run or a project.
func (s *Server) EndOwner(
	ctx context.Context,
	req *sandboxsupervisorv1.EndOwnerRequest,
) (*sandboxsupervisorv1.EndOwnerResponse, error) {
	whose := core.Whose{Session: req.GetSessionId(), Run: req.GetRunId(), Project: req.GetProjectId()}
	ended, err := s.supervisor.EndOwner(ctx, whose)
	if err != nil {
		return nil, err
	}
	res := &sandboxsupervisorv1.EndOwnerResponse{Killed: int32(ended)}
	if whose.Run == "" { // findings of a run's cages are reported at the end of its session
		res.Found = contract.FindingsProto(s.supervisor.TakeFound(whose))
	}
	return res, nil
}
