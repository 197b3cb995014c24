package server

import (
	"context"
	"time"

	"kaged.dev/services/tool-runner/internal/core/debugging"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// ControlDebug continues or steps a debugged program for an operator.
func (s *Server) ControlDebug(
	ctx context.Context, req *toolrunnerv1.ControlDebugRequest,
) (*toolrunnerv1.ControlDebugResponse, error) {
	moved, err := s.runner.ControlDebug(ctx, debugging.Move{
		Session: req.GetSessionId(), ID: req.GetDebugSessionId(), Operator: req.GetOperatorId(), Action: req.GetAction(),
		Timeout: time.Duration(req.GetTimeoutMs()) * time.Millisecond, Thread: int(req.GetThreadId()),
		Expression: req.GetExpression(), Frame: int(req.GetFrameId()),
	})
	if err != nil {
		return nil, err
	}
	res := &toolrunnerv1.ControlDebugResponse{}
	if moved.State != nil {
		res.State = moved.State.Proto()
	}
	if moved.Result != nil {
		res.Result = moved.Result.Proto()
	}
	return res, nil
}
