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

// DebugLook selects a view of a session's debug sessions. ID selects one; "" selects the last active one, or the
// last if none is active. Output is the offset of the first byte of output.
type DebugLook struct {
	Session, ID string
	Frame       int32
	Output      int64
}

// Debugged is the list of a session's debug sessions, and the view of the selected one, or nil.
type Debugged struct {
	Sessions []contract.DebugSession
	View     *contract.DebugView
}

// DebugMove is an operator's action on a debugged program.
type DebugMove struct {
	Session, ID, Action string
	// Timeout bounds the wait for the next stop, 0 for the default.
	Timeout    time.Duration
	Thread     int64
	Expression string
	Frame      int32
}

// DebugMoved is the result of a move; one field is set.
type DebugMoved struct {
	State  *contract.DebugState
	Result *contract.DebugVariable
}

// The bounds of a [DebugMove].
const (
	debugTimeout    = time.Second
	maxDebugTimeout = 30 * time.Second
	maxExpression   = 4 << 10
)

// debugActions are an operator's actions on a debugged program.
var debugActions = []string{"pause", "continue", "step_into", "step_over", "step_out", "evaluate"}

// Debug returns the debug sessions of the caller's session. It fails with not_found, validation_failed and
// unavailable.
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

// checkDebug refuses an impossible id and numbers out of range.
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

// ControlDebug carries out an action on a debugged program of the caller's session. The action is audited first. It
// fails with not_found, gone, validation_failed, stale_lease and unavailable, and with the debugger's errors.
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
