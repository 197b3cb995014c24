package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// ListProcesses returns the running commands, cages and runs of the caller's sessions, or of one of them.
func (s *Server) ListProcesses(
	ctx context.Context, req *apiv1.ListProcessesRequest,
) (*apiv1.ListProcessesResponse, error) {
	found, err := s.sessions.Running(ctx, req.GetSessionId())
	if err != nil {
		return nil, err
	}
	return running(found), nil
}
