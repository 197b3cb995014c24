package server

import (
	"context"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"

	"kaged.dev/pkg/contract/toolwire"
)

// ListProcesses lists the processes of the workspace.
func (s *Server) ListProcesses(
	ctx context.Context,
	req *toolrunnerv1.ListProcessesRequest,
) (*toolrunnerv1.ListProcessesResponse, error) {
	running, err := s.runner.Running(ctx, req.GetSessionId())
	if err != nil {
		return nil, err
	}
	return toolwire.Running(running), nil
}
