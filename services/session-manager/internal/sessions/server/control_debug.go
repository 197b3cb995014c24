package server

import (
	"context"
	"time"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/session-manager/internal/sessions/core/sessions"
)

// ControlDebug carries out an operator's action on a debugged program.
func (s *Server) ControlDebug(
	ctx context.Context, req *apiv1.ControlDebugRequest,
) (*apiv1.ControlDebugResponse, error) {
	moved, err := s.sessions.ControlDebug(ctx, sessions.DebugMove{
		Session: req.GetSessionId(), ID: req.GetDebugSessionId(), Action: req.GetAction(),
		Timeout: milliseconds(req.GetTimeout()), Thread: req.GetThreadId(), Expression: req.GetExpression(),
		Frame: req.GetFrameId(),
	})
	if err != nil {
		return nil, err
	}
	res := &apiv1.ControlDebugResponse{}
	if moved.State != nil {
		res.State = moved.State.Proto()
	}
	if moved.Result != nil {
		res.Result = moved.Result.Proto()
	}
	return res, nil
}

// milliseconds returns n as a duration. Values far out of range are clamped, but stay out of range.
func milliseconds(n int64) time.Duration {
	return time.Duration(max(min(n, int64(time.Hour/time.Millisecond)), -1)) * time.Millisecond
}
