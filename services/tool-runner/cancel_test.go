package toolrunner_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/fault"

	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// The end of the caller ends the command, and the call is not repeated, because it may have had effects.
func TestLeavingEndsTheCommand(t *testing.T) {
	t.Parallel()
	box := newSandbox()
	c := start(t, box)
	req := c.request("shell.bash", `{"command":"echo started; sleep 600"}`)
	ctx, leave := context.WithCancel(t.Context())
	stream, err := c.RunTool(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	if event, err := stream.Recv(); err != nil || event.GetOutput().GetText() != "started\n" {
		t.Fatalf("%v, %v", event, err)
	}
	leave()
	if _, err := stream.Recv(); !errors.Is(err, fault.Cancelled) {
		t.Errorf("error %v", err)
	}
	if err := <-box.gone; !errors.Is(err, context.Canceled) {
		t.Errorf("the command ended with %v", err)
	}
	if _, result, err := c.run(req); err != nil || !errors.Is(fault.FromProto(result.GetError()), fault.Cancelled) {
		t.Errorf("the same call again: %v, %v", result, err)
	}
}

// A cancelled command leaves the record that it was run, with its parameters, and the caller that cancels gets the
// record.
func TestCancelledCommandsAreRecorded(t *testing.T) {
	t.Parallel()
	c := start(t, newSandbox())
	for _, tool := range []string{"shell.bash", "shell.exec"} {
		req := c.request(tool, `{"command":"echo started; sleep 600 # for long","env":{"MY_TOKEN":"x"}}`)
		if _, err := c.CancelTool(t.Context(), cancelOf(req)); !errors.Is(err, fault.NotFound) {
			t.Errorf("a call that was not made: %v", err)
		}
		stream, err := c.RunTool(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if event, err := stream.Recv(); err != nil || event.GetOutput().GetText() != "started\n" {
			t.Fatalf("%v, %v", event, err)
		}
		for range 2 { // a second cancellation changes nothing
			if _, err := c.CancelTool(t.Context(), cancelOf(req)); err != nil {
				t.Fatal(err)
			}
		}
		event, err := stream.Recv()
		result := event.GetResult()
		if err != nil || !errors.Is(fault.FromProto(result.GetError()), fault.Cancelled) ||
			!strings.Contains(result.GetContent(), `"cancelled"`) {
			t.Fatalf("%v, %v", event, err)
		}
		records := map[string]map[string]any{}
		for _, r := range result.GetAudit() {
			records[r.GetEventType()] = r.GetPayload().AsMap()
		}
		called, _ := records["tool.called"]["params"].(map[string]any)
		want := map[string]any{"command": "echo started; sleep 600 # for long", "env": map[string]any{"MY_TOKEN": "[masked]"}}
		if d := cmp.Diff(want, called); d != "" {
			t.Error(d)
		}
		ran := records["shell.executed"]
		if ran["command"] != "echo started; sleep 600 # for long" || ran["error_code"] != "cancelled" ||
			ran["exit_code"] != nil ||
			ran["cwd"] != "./" {
			t.Errorf("shell.executed: %v", ran)
		}
		if records["tool.completed"]["error_code"] != "cancelled" {
			t.Errorf("tool.completed: %v", records["tool.completed"])
		}
	}
}

func cancelOf(req *toolrunnerv1.RunToolRequest) *toolrunnerv1.CancelToolRequest {
	return &toolrunnerv1.CancelToolRequest{SessionId: req.GetContext().GetSessionId(), CallId: req.GetCallId()}
}

// If the sandbox is lost while a command runs, the call fails; if it is missing from the start, the error is not the
// call's.
func TestTheSandboxGoesAway(t *testing.T) {
	t.Parallel()
	breaking, lost, ended := newSandbox(), newSandbox(), newSandbox()
	breaking.breaks = true
	lost.reason, ended.reason = sandboxsupervisorv1.KillReason_KILL_REASON_LOST,
		sandboxsupervisorv1.KillReason_KILL_REASON_OWNER_ENDED
	for _, box := range []*smallSandbox{breaking, lost} {
		c := start(t, box)
		if _, result := c.call("shell.bash", `{"command":"true"}`); !errors.Is(
			fault.FromProto(result.GetError()),
			fault.Interrupted,
		) {
			t.Errorf("%v", result)
		}
	}
	c := start(t, ended)
	if _, result := c.call("shell.bash", `{"command":"true"}`); !errors.Is(
		fault.FromProto(result.GetError()),
		fault.Cancelled,
	) {
		t.Errorf("%v", result)
	}
	c = start(t, sandboxsupervisorv1.UnimplementedSandboxServiceServer{})
	if _, _, err := c.run(c.request("shell.bash", `{"command":"true"}`)); err == nil {
		t.Error("a command ran without a sandbox")
	}
}
