package toolrunner

import (
	"context"

	"kaged.dev/pkg/contract"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
	"kaged.dev/services/session-manager/internal/sessions/core/sessions"
)

// Debug implements [sessions.Tools].
func (w *Workspaces) Debug(ctx context.Context, workspace string, l sessions.DebugLook) (sessions.Debugged, error) {
	client, err := w.open(ctx, workspace)
	if err != nil {
		return sessions.Debugged{}, err
	}
	resp, err := client.ViewDebug(ctx, &toolrunnerv1.ViewDebugRequest{
		SessionId: l.Session, DebugSessionId: l.ID, FrameId: l.Frame, OutputFrom: l.Output,
	})
	return sessions.Debugged{
		Sessions: contract.DebugSessionsFromProto(resp.GetSessions()), View: contract.DebugViewFromProto(resp.GetView()),
	}, err
}

// ControlDebug implements [sessions.Tools].
func (w *Workspaces) ControlDebug(
	ctx context.Context, workspace, operator string, m sessions.DebugMove,
) (moved sessions.DebugMoved, err error) {
	client, err := w.open(ctx, workspace)
	if err != nil {
		return moved, err
	}
	resp, err := client.ControlDebug(ctx, &toolrunnerv1.ControlDebugRequest{
		SessionId: m.Session, DebugSessionId: m.ID, OperatorId: operator, Action: m.Action,
		TimeoutMs: m.Timeout.Milliseconds(), ThreadId: m.Thread, Expression: m.Expression, FrameId: m.Frame,
	})
	if resp.GetState() != nil {
		s := contract.DebugStateFromProto(resp.GetState())
		moved.State = &s
	}
	if resp.GetResult() != nil {
		v := contract.DebugVariableFromProto(resp.GetResult())
		moved.Result = &v
	}
	return moved, err
}
