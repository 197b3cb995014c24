package sessions

import (
	"context"
	"slices"
	"strings"
	"time"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/ident"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
)

// DebugLook selects a view of the debug sessions of a session. ID is the debug session's, "" for the last one that is
// active, or else the last; Output is the first byte of output.
type DebugLook struct {
	Session, ID string
	Frame       int32
	Output      int64
}

// Debugged is the state of debugging: all debug sessions of a session, and the selected one, or nil.
type Debugged struct {
	Sessions []contract.DebugSession
	View     *contract.DebugView
}

// DebugMove is a step of a debugged program by an operator, or an expression.
type DebugMove struct {
	Session, ID, Action string
	// Timeout is how long the next stop is waited for, 0 for the default.
	Timeout    time.Duration
	Thread     int64
	Expression string
	Frame      int32
}

// DebugMoved is the result: one field is set.
type DebugMoved struct {
	State  *contract.DebugState
	Result *contract.DebugVariable
}

// The bounds of moves.
const (
	debugTimeout    = time.Second
	maxDebugTimeout = 30 * time.Second
	maxExpression   = 4 << 10
)

// debugActions are an operator's actions on a debugged program.
var debugActions = []string{"pause", "continue", "step_into", "step_over", "step_out", "evaluate"}

// Debug shows the debug sessions of a session of the caller. It fails with not_found, with validation_failed and
// with unavailable.
func (s *Service) Debug(ctx context.Context, l DebugLook) (Debugged, error) {
	found, err := s.find(ctx, l.Session)
	if err != nil {
		return Debugged{}, err
	}
	if err := checkDebug(l.ID, int64(l.Frame), l.Output); err != nil || found.State == record.Ended {
		return Debugged{}, err
	}
	return s.Tools.Debug(ctx, found.Workspace, l)
}

// checkDebug refuses an id that cannot be and numbers that are negative.
func checkDebug(id string, frame, output int64) error {
	switch {
	case id != "" && (!strings.HasPrefix(id, "dap_") || !check.Findable(strings.TrimPrefix(id, "dap_"))):
		return check.Field("debug_session_id", "debug_session_id must be the id of a debug session.")
	case frame < 0 || frame > 1e6:
		return check.Field("frame_id", "frame_id must be from 0 to 1000000.")
	case output < 0:
		return check.Field("output_from", "output_from must not be negative.")
	}
	return nil
}

// ControlDebug moves a program that an agent of the caller's session debugs, or evaluates an expression in it. That is
// recorded first. It fails with not_found, gone, validation_failed, stale_lease, unavailable, and as the debugger does.
func (s *Service) ControlDebug(ctx context.Context, m DebugMove) (DebugMoved, error) {
	if m.Timeout == 0 {
		m.Timeout = debugTimeout
	}
	err := checkDebug(m.ID, int64(m.Frame), 0)
	switch {
	case err != nil:
	case !slices.Contains(debugActions, m.Action):
		err = check.Field("action", "action must be one of %s.", strings.Join(debugActions, ", "))
	case m.Timeout < time.Millisecond || m.Timeout > maxDebugTimeout:
		err = check.Field("timeout", "timeout must be from 1 to %d milliseconds.", maxDebugTimeout.Milliseconds())
	case (m.Action == "evaluate") != (m.Expression != ""):
		err = check.Field("expression", "expression is for the action evaluate, which needs it.")
	case check.Text("expression", m.Expression, 0) != nil:
		err = check.Text("expression", m.Expression, 0)
	case len(m.Expression) > maxExpression:
		err = check.Field("expression", "expression must have at most %d bytes.", maxExpression)
	}
	if err != nil {
		return DebugMoved{}, err
	}
	l, release, err := s.acquire(ctx, m.Session)
	if err != nil {
		return DebugMoved{}, err
	}
	defer release()
	err = l.Update(ctx, "", func(current record.Session) (record.Change, error) {
		payload := map[string]any{"action": m.Action}
		if m.ID != "" {
			payload["debug_session_id"] = m.ID
		}
		if m.Expression != "" {
			payload["expression"] = m.Expression
		}
		return record.Change{At: now(), Audit: []audit.Record{about(ctx, current, "debug.controlled", payload)}}, nil
	}, nil)
	if err != nil {
		return DebugMoved{}, err
	}
	return s.Tools.ControlDebug(ctx, l.Record().Workspace, ident.CallerFrom(ctx).UserID, m)
}
