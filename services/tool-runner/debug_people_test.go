package toolrunner_test

import (
	"errors"
	"strings"
	"testing"

	"kaged.dev/pkg/fault"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// An operator watches an agent debug a Go test over the run's stream, sees source and values, and steps the program,
// which the agent's next answer reports.
func TestPeopleWatchAndMove(t *testing.T) {
	t.Parallel()
	c := withDebuggers(t)
	stream, err := c.HoldRun(t.Context(), &toolrunnerv1.HoldRunRequest{Context: c.request("debug", "{}").GetContext()})
	if err != nil {
		t.Fatal(err)
	}
	next := func(wanted func(*commonv1.DebugEvent) bool) *commonv1.DebugEvent {
		t.Helper()
		for {
			event, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if e := event.GetDebug(); e != nil && wanted(e) {
				return e
			}
		}
	}
	stopped := func(e *commonv1.DebugEvent) bool { return e.GetStopped() != nil }
	launched, _ := c.debug(`{"action":"launch","runtime":"go","mode":"test","script":".","args":["-test.run=TestMean"]}`)
	c.want(launched, `"stopped_reason":"entry"`)
	id := next(stopped).GetDebugSessionId()
	if id != launched["debug_session_id"] {
		t.Errorf("told of %s after the launch of %v", id, launched["debug_session_id"])
	}
	c.debug(`{"action":"set_breakpoint","path":"mean.go","line":7}`)
	c.debug(`{"action":"continue"}`)
	stop := next(stopped).GetStopped()
	if top := stop.GetFrames()[0]; top.GetPath() != "mean.go" || top.GetLine() != 7 || stop.GetBreakpointId() != 1 ||
		stop.GetReason() != "breakpoint" {
		t.Errorf("stopped as %v", stop)
	}
	if source := stop.GetSource(); len(source) != 7 || source[3].GetLine() != 7 || source[3].GetText() != "\t\tsum += n" {
		t.Errorf("the source is %v", stop.GetSource())
	}
	names := map[string]string{}
	for _, v := range stop.GetLocals() {
		names[v.GetName()] = v.GetValue()
	}
	if names["sum"] != "0" || names["n"] != "4" {
		t.Errorf("the values are %v", names)
	}
	control := func(action, expression string) (*toolrunnerv1.ControlDebugResponse, error) {
		return c.ControlDebug(t.Context(), &toolrunnerv1.ControlDebugRequest{
			SessionId: "s1", OperatorId: "ada", Action: action, Expression: expression, TimeoutMs: 30_000,
		})
	}
	moved, err := control("step_over", "")
	if err != nil || moved.GetState().GetStatus() != "stopped" || moved.GetState().GetLocation().GetLine() != 6 {
		t.Fatalf("moved to %v, %v", moved, err)
	}
	if move := next(stopped).GetStopped().GetMoved(); move.GetOperatorId() != "ada" || move.GetAction() != "step_over" {
		t.Errorf("told of a move by %v", move)
	}
	if value, err := control("evaluate", "sum * 2"); err != nil || value.GetResult().GetValue() != "8" {
		t.Errorf("evaluated as %v, %v", value, err)
	}
	if _, err := control("evaluate", "call Mean(list)"); !errors.Is(err, fault.InvalidParams) {
		t.Errorf("a call is evaluated: %v", err)
	}
	if _, err := control("disconnect", ""); !errors.Is(err, fault.InvalidParams) {
		t.Errorf("an operator disconnects: %v", err)
	}
	seen, err := c.ViewDebug(t.Context(), &toolrunnerv1.ViewDebugRequest{SessionId: "s1", FrameId: 1})
	view := seen.GetView()
	if err != nil || len(seen.GetSessions()) != 1 || view.GetFrames()[1].GetPath() != "mean_test.go" ||
		len(view.GetBreakpoints()) != 1 || view.GetMoved().GetOperatorId() != "ada" || len(view.GetSource()) == 0 ||
		!strings.Contains(view.GetSource()[len(view.GetSource())/2].GetText(), "Mean(") {
		t.Errorf("the view is %v, %v", seen, err)
	}
	result, _ := c.debug(`{"action":"variables","filter":"sum"}`)
	c.want(result, `"moved_by":[{"action":"step_over","by":"ada"}]`, `"value":"4"`)
	result, _ = c.debug(`{"action":"variables"}`)
	if _, again := result["moved_by"]; again {
		t.Errorf("a move is told twice: %v", result)
	}
	c.debug(`{"action":"remove_breakpoint","path":"mean.go","line":7}`)
	c.debug(`{"action":"continue"}`)
	written := ""
	end := next(func(e *commonv1.DebugEvent) bool {
		written += e.GetOutput().GetText()
		return e.GetEnded() != nil
	}).GetEnded()
	if end.GetReason() != "disconnect" || end.GetExitCode() != 1 || !strings.Contains(written, "the mean is 3") {
		t.Errorf("it ends as %v after %q", end, written)
	}
}
