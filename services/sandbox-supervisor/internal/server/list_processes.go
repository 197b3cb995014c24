package server

import (
	"context"

	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

// ListProcesses says what runs.
func (s *Server) ListProcesses(_ context.Context, req *sandboxsupervisorv1.ListProcessesRequest) (*sandboxsupervisorv1.ListProcessesResponse, error) {
	return processesToProto(s.supervisor.List(req.GetSessionId(), req.GetEnded())), nil
}
