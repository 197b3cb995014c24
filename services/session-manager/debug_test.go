package sessionmanager

import (
	"context"
	"slices"
	"strings"
	"testing"

	"kaged.dev/pkg/fault"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// ViewDebug returns the debug session of the first session in runs.
func (r *toolRunner) ViewDebug(
	_ context.Context, req *toolrunnerv1.ViewDebugRequest,
) (*toolrunnerv1.ViewDebugResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.away {
		return nil, fault.New(fault.Unavailable, "The workspace is away.")
	}
	if len(r.runs) == 0 || req.GetSessionId() != r.runs[0] {
		return &toolrunnerv1.ViewDebugResponse{}, nil
	}
	session := &commonv1.DebugSession{
		DebugSessionId: "dap_1", SessionId: req.GetSessionId(), Runtime: "go", Status: "stopped",
	}
	return &toolrunnerv1.ViewDebugResponse{
		Sessions: []*commonv1.DebugSession{session}, View: &commonv1.DebugView{
			Session: session, FrameId: req.GetFrameId(), State: &commonv1.DebugState{
				DebugSessionId: "dap_1", Status: "stopped",
				Output: &commonv1.DebugOutput{Text: "hello", From: req.GetOutputFrom(), Next: req.GetOutputFrom() + 5},
			},
		},
	}, nil
}

// ControlDebug records each action and its operator.
func (r *toolRunner) ControlDebug(
	_ context.Context, req *toolrunnerv1.ControlDebugRequest,
) (*toolrunnerv1.ControlDebugResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, req.GetOperatorId()+" "+req.GetAction())
	if req.GetAction() == "evaluate" {
		return &toolrunnerv1.ControlDebugResponse{Result: &commonv1.DebugVariable{Value: "4", Type: "int"}}, nil
	}
	return &toolrunnerv1.ControlDebugResponse{State: &commonv1.DebugState{DebugSessionId: "dap_1", Status: "running"}}, nil
}

// debug reports an event of a debug session.
func (p *play) debug(e *commonv1.DebugEvent) {
	e.DebugSessionId, e.AgentPath, e.At = "dap_1", "primary", 5
	p.send(&harnessv1.RunEvent{Event: &harnessv1.RunEvent_Debug{Debug: e}})
}

// The socket of a session receives the state of its debugged program. A debug session that is still open ends with
// the run, before the run's end is shown.
func TestFramesOfDebugSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s := n.session("ada")
	w.harness.expect(func(p *play) {
		p.model()
		p.debug(&commonv1.DebugEvent{Event: &commonv1.DebugEvent_Running{Running: &commonv1.DebugRunning{
			Runtime: "go", Program: "sum",
		}}})
		p.debug(&commonv1.DebugEvent{Event: &commonv1.DebugEvent_Output{Output: &commonv1.DebugOutput{
			Text: "a\x1b[31m", From: 3, Next: 9, Omitted: 3,
		}}})
		p.debug(&commonv1.DebugEvent{InvocationId: "01I", Event: &commonv1.DebugEvent_Stopped{Stopped: &commonv1.DebugStop{
			Reason: "pause", ThreadId: 1, Moved: &commonv1.DebugMove{Action: "pause", OperatorId: "ada", At: 4},
			Frames: []*commonv1.DebugFrame{{Name: "main.main", Path: "main.go", Line: 3}},
			Locals: []*commonv1.DebugVariable{{Name: "n", Value: strings.Repeat("v", 100_000), Type: "string"}},
			Source: []*commonv1.DebugLine{{Line: 3, Text: "n := 1"}},
		}}})
		sayHello(p)
	})
	run := n.post("ada", s, "Hi.").GetRunId()
	events := w.await(s, "events", `session.state {"state":"idle"}`)
	head := `{"run_id":"` + run + `","agent_path":"primary","debug_session_id":"dap_1",`
	at := func(want string) int {
		i := slices.IndexFunc(events, func(e string) bool { return strings.HasPrefix(e, want) })
		if i < 0 {
			t.Errorf("no %s in %q", want, events)
		}
		return i
	}
	at(`debug.session ` + head + `"runtime":"go","program":"sum","at":5}`)
	frame := `{"id":0,"name":"main.main","path":"main.go","line":3,"column":0}`
	stopped := at(`debug.stopped {"run_id":"` + run +
		`","invocation_id":"01I","agent_path":"primary","debug_session_id":"dap_1",` +
		`"stopped_reason":"pause","thread_id":1,"location":` + frame + `,"frames":[` + frame +
		`],"locals":[{"name":"n","value":"vvv`)
	if stopped >= 0 && (len(events[stopped]) > 2000 || !strings.HasSuffix(events[stopped],
		`"source":[{"line":3,"text":"n := 1"}],"moved":{"action":"pause","operator_id":"ada","at":4},"at":5}`)) {
		t.Errorf("the stop is %s", events[stopped])
	}
	if at(`debug.ended {"run_id":"`+run+`","invocation_id":"01I","agent_path":"primary","debug_session_id":"dap_1",`+
		`"reason":"run_ended",`) > at(`run.ended `) {
		t.Errorf("the debug session ends after its run in %q", events)
	}
	output := w.await(s, "output", "message.end")
	want := `debug.output {"run_id":"` + run + `","debug_session_id":"dap_1","text":"a\u001b[31m","from":3,"next":9,` +
		`"omitted":3}`
	if !slices.Contains(output, want) {
		t.Errorf("no %s in %q", want, output)
	}
}

// An operator sees the debug sessions of an own session's agents and can control them; another operator cannot. An
// invalid action is refused before it reaches the workspace. Each action is audited.
func TestOperatorsDebug(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s, quiet := n.session("ada"), n.session("ada")
	w.tools.runs = []string{s}
	get := func(user string, req *apiv1.GetDebugRequest) (*apiv1.GetDebugResponse, error) {
		return n.Sessions.GetDebug(as(t, user), req)
	}
	seen, err := get("ada", &apiv1.GetDebugRequest{SessionId: s, OutputFrom: 7})
	if err != nil || len(seen.GetSessions()) != 1 || seen.GetDebug().GetState().GetOutput().GetNext() != 12 {
		t.Errorf("%v, %v", seen, err)
	}
	if seen, err := get("ada", &apiv1.GetDebugRequest{SessionId: quiet}); err != nil || len(seen.GetSessions()) != 0 ||
		seen.Debug != nil {
		t.Errorf("without a debug session: %v, %v", seen, err)
	}
	_, err = get("eve", &apiv1.GetDebugRequest{SessionId: s})
	refused(t, err, fault.NotFound)
	for _, req := range []*apiv1.GetDebugRequest{
		{SessionId: s, FrameId: -1}, {SessionId: s, OutputFrom: -1}, {SessionId: s, DebugSessionId: "other"},
	} {
		_, err = get("ada", req)
		refused(t, err, fault.ValidationFailed)
	}
	control := func(user string, req *apiv1.ControlDebugRequest) (*apiv1.ControlDebugResponse, error) {
		return n.Sessions.ControlDebug(as(t, user), req)
	}
	if moved, err := control("ada", &apiv1.ControlDebugRequest{SessionId: s, Action: "pause"}); err != nil ||
		moved.GetState().GetStatus() != "running" {
		t.Errorf("%v, %v", moved, err)
	}
	value, err := control("ada", &apiv1.ControlDebugRequest{SessionId: s, Action: "evaluate", Expression: "2 + 2"})
	if err != nil || value.GetResult().GetValue() != "4" {
		t.Errorf("%v, %v", value, err)
	}
	_, err = control("eve", &apiv1.ControlDebugRequest{SessionId: s, Action: "pause"})
	refused(t, err, fault.NotFound)
	for _, req := range []*apiv1.ControlDebugRequest{
		{},
		{Action: "disconnect"},
		{Action: "pause", Timeout: 30_001},
		{Action: "pause", Timeout: -1},
		{Action: "evaluate"},
		{Action: "pause", Expression: "1"},
		{Action: "evaluate", Expression: "a\x00"},
		{Action: "pause", FrameId: -1},
		{Action: "evaluate", Expression: strings.Repeat("1", 5000)},
		{Action: "pause", DebugSessionId: "x"},
	} {
		req.SessionId = s
		_, err = control("ada", req)
		refused(t, err, fault.ValidationFailed)
	}
	w.tools.mu.Lock()
	calls := slices.Clone(w.tools.calls)
	w.tools.mu.Unlock()
	if !slices.Contains(calls, "ada pause") || slices.Contains(calls, "eve pause") {
		t.Errorf("the workspace was asked %q", calls)
	}
	recorded, err := n.Audit.QueryAudit(as(t, "ada"), &apiv1.QueryAuditRequest{Session: s, EventType: "debug.controlled"})
	if err != nil || len(recorded.GetItems()) != 2 || recorded.GetItems()[0].GetUserId() != "ada" {
		t.Errorf("recorded %v, %v", recorded, err)
	}
	w.tools.leave(true)
	_, err = get("ada", &apiv1.GetDebugRequest{SessionId: s})
	refused(t, err, fault.Unavailable)
}
