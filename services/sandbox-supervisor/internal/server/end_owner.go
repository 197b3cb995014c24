package server

import (
	"context"

	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

// EndOwner ends what belongs to a session.
func (s *Server) EndOwner(ctx context.Context, req *sandboxsupervisorv1.EndOwnerRequest) (*sandboxsupervisorv1.EndOwnerResponse, error) {
	ended, err := s.supervisor.EndOwner(ctx, req.GetSessionId())
	if err != nil {
		return nil, err
	}
	return &sandboxsupervisorv1.EndOwnerResponse{Killed: int32(ended), Found: findingsToProto(s.supervisor.TakeFound(req.GetSessionId()))}, nil
}
