package server

import (
	"context"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/tool-runner/internal/core/debugging"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// ViewDebug shows a debug session to people.
func (s *Server) ViewDebug(
	ctx context.Context, req *toolrunnerv1.ViewDebugRequest,
) (*toolrunnerv1.ViewDebugResponse, error) {
	if req.GetSessionId() == "" || req.GetFrameId() < 0 {
		return nil, fault.New(fault.BadRequest, "A view needs a session_id, and a frame_id that is not negative.")
	}
	seen, err := s.runner.ViewDebug(ctx, debugging.Look{
		Session: req.GetSessionId(), ID: req.GetDebugSessionId(), Frame: int(req.GetFrameId()), Output: req.GetOutputFrom(),
	})
	if err != nil {
		return nil, err
	}
	return &toolrunnerv1.ViewDebugResponse{
		Sessions: contract.DebugSessionsProto(seen.Sessions), View: seen.View.Proto(),
	}, nil
}
