package server

import (
	"context"

	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
	"kaged.dev/services/sandbox-supervisor/internal/core"
)

// ListProcesses lists the running processes.
func (s *Server) ListProcesses(
	_ context.Context,
	req *sandboxsupervisorv1.ListProcessesRequest,
) (*sandboxsupervisorv1.ListProcessesResponse, error) {
	return processesToProto(
		s.supervisor.List(core.Whose{Session: req.GetSessionId(), Project: req.GetProjectId()}, req.GetEnded()),
	), nil
}
