package server

import (
	"context"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// CancelTool cancels a call for all its waiters.
func (s *Server) CancelTool(
	_ context.Context,
	req *toolrunnerv1.CancelToolRequest,
) (*toolrunnerv1.CancelToolResponse, error) {
	if err := s.runner.Cancel(req.GetSessionId(), req.GetInvocationId(), req.GetCallId()); err != nil {
		return nil, err
	}
	return &toolrunnerv1.CancelToolResponse{}, nil
}
