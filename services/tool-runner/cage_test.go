package toolrunner_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// policy is a cage in which a shell can work.
func policy() *commonv1.CagePolicy {
	return &commonv1.CagePolicy{
		Fs: []*commonv1.CageMount{
			{Mode: "rw", Path: "project:/"},
		},
		Capabilities: []string{"shell"}, Seccomp: "default", State: "ephemeral",
		Limits: &commonv1.CageLimits{MemoryBytes: 512 << 20, WalltimeMs: 600_000},
	}
}

func (c *client) hold(ctx context.Context, id string) (recv func() (*toolrunnerv1.HoldCageEvent, error)) {
	c.t.Helper()
	stream, err := c.HoldCage(ctx, &toolrunnerv1.HoldCageRequest{CageId: id, Context: &toolrunnerv1.ToolContext{
		SessionId: "s1", RunId: "r1", ProjectId: "p1", Caller: "primary.subagents.tester", ProjectRoot: c.root,
		Cage: policy(),
	}})
	if err != nil {
		c.t.Fatal(err)
	}
	return stream.Recv
}

// A hold is the supervisor's hold, relayed to the harness: events of the cage arrive as they happen, and its end comes
// last.
func TestHoldCage(t *testing.T) {
	t.Parallel()
	box := newSandbox()
	c := start(t, box)
	id := ident.New()
	recv := c.hold(t.Context(), id)
	asked := <-box.held
	if asked.GetCageId() != id || asked.GetOwner().GetSessionId() != "s1" || asked.GetOwner().GetRunId() != "r1" ||
		asked.GetOwner().GetProjectId() != "p1" ||
		asked.GetAgentPath() != "primary.subagents.tester" ||
		asked.GetProjectRoot() != c.root ||
		asked.GetPolicy().GetLimits().GetMemoryBytes() != 512<<20 {
		t.Errorf("asked for %v", asked)
	}
	attempt := &commonv1.NetworkAttempt{At: 5, Target: "example.com:443", Allowed: true, Rule: "example.com:443", Count: 2}
	for _, e := range []*sandboxsupervisorv1.HoldCageEvent{
		{
			Event: &sandboxsupervisorv1.HoldCageEvent_Opened{
				Opened: &sandboxsupervisorv1.Cage{CageId: "joined", Tier: "userns", BestEffort: []string{"b"}},
			},
		},
		{Event: &sandboxsupervisorv1.HoldCageEvent_Network{Network: attempt}},
		{}, // an event unknown to this build
		{
			Event: &sandboxsupervisorv1.HoldCageEvent_Ended{
				Ended: &sandboxsupervisorv1.CageEnded{Reason: sandboxsupervisorv1.KillReason_KILL_REASON_WALLTIME},
			},
		},
	} {
		box.events <- e
	}
	close(box.events)
	event, err := recv()
	if o := event.GetOpened(); err != nil || o.GetCageId() != "joined" || o.GetTier() != "userns" ||
		len(o.GetBestEffort()) != 1 ||
		!strings.Contains(o.GetSummary(), "capabilities shell") {
		t.Errorf("%v, %v", event, err)
	}
	if event, err = recv(); err != nil || !cmp.Equal(attempt, event.GetNetwork(), protocmp.Transform()) {
		t.Errorf("%v, %v", event, err)
	}
	if event, err = recv(); err != nil || event.GetEnded().GetReason() != "walltime" {
		t.Errorf("%v, %v", event, err)
	}
}

// The end of the hold releases the cage. A cage that cannot be made fails with the reason, and a cage lost without an
// event is unavailable.
func TestHoldCageEnds(t *testing.T) {
	t.Parallel()
	opened := &sandboxsupervisorv1.HoldCageEvent{
		Event: &sandboxsupervisorv1.HoldCageEvent_Opened{Opened: &sandboxsupervisorv1.Cage{CageId: "c"}},
	}
	left := newSandbox()
	ctx, leave := context.WithCancel(t.Context())
	recv := start(t, left).hold(ctx, "c")
	left.events <- opened
	if _, err := recv(); err != nil {
		t.Error(err)
	}
	leave()
	<-left.left

	refused := newSandbox()
	refused.refuses = fault.New(fault.CagePolicyInvalid, "There is no ./src.").With("field", "cage.fs[0].path")
	_, err := start(t, refused).hold(t.Context(), "c")()
	if f := fault.From(err); !errors.Is(err, fault.CagePolicyInvalid) || f.Details["field"] != "cage.fs[0].path" {
		t.Errorf("%v", err)
	}

	lost := newSandbox()
	recv = start(t, lost).hold(t.Context(), "c")
	lost.events <- opened
	close(lost.events)
	if _, err := recv(); err != nil {
		t.Error(err)
	}
	if _, err := recv(); !errors.Is(err, fault.Unavailable) {
		t.Errorf("%v", err)
	}
	if _, err := start(t, newSandbox()).hold(t.Context(), "")(); !errors.Is(err, fault.BadRequest) {
		t.Errorf("a cage without an id: %v", err)
	}
}

// A command of a caged agent runs in the cage made for the agent, without the variables of kaged's user.
func TestCommandsRunInTheCage(t *testing.T) {
	t.Parallel()
	box := newSandbox()
	c := start(t, box)
	for _, tool := range []string{"shell.bash", "shell.exec"} {
		req := c.request(tool, `{"command": "true", "env": {"A": "b"}}`)
		req.Context.Cage, req.Context.CageId = policy(), "c1"
		if _, result, err := c.run(req); err != nil || result.GetError() != nil {
			t.Fatalf("%s: %v, %v", tool, result, err)
		}
		asked := <-box.asked
		if asked.GetCageId() != "c1" || asked.GetOwner().GetAgentPath() != "primary" || asked.GetCage() == nil ||
			asked.GetEnv()["A"] != "b" {
			t.Errorf("%s asked for %v", tool, asked)
		}
		for _, name := range []string{"HOME", "USER", "SHELL", "TMPDIR"} {
			if value, given := asked.GetEnv()[name]; given {
				t.Errorf("%s has %s=%s, which the cage knows better", tool, name, value)
			}
		}
	}
}

// The connections that the cage refuses during a command are in its result, each kind once and in limited size, so that
// the model learns the missing rule.
func TestRefusedConnections(t *testing.T) {
	t.Parallel()
	box := newSandbox()
	for _, target := range []string{"a.example:443", "b.example", "a.example:443"} {
		box.refused = append(box.refused, &commonv1.NetworkAttempt{Target: target, Rule: "No rule allows it.", Count: 2})
	}
	c := start(t, box)
	for _, tool := range []string{"shell.bash", "shell.exec"} {
		content, _ := c.call(tool, `{"command": "true"}`)
		want := []any{
			map[string]any{"target": "a.example:443", "reason": "No rule allows it.", "count": 4.0},
			map[string]any{"target": "b.example", "reason": "No rule allows it.", "count": 2.0},
		}
		if d := cmp.Diff(want, content["network_refused"]); d != "" {
			t.Errorf("%s: %s", tool, d)
		}
	}
	box = newSandbox()
	for range 1000 {
		box.refused = append(box.refused, &commonv1.NetworkAttempt{Target: ident.New(), Rule: "No.", Count: 1})
	}
	content, _ := start(t, box).call("shell.bash", `{"command": "true"}`)
	list := content["network_refused"].([]any)
	if last := list[len(list)-1].(map[string]any); len(list) != 21 || last["target"] != "others" ||
		last["count"] != 980.0 {
		t.Errorf("%d refusals, the last %v", len(list), last)
	}
}

// Each limit of a cage that ends a command has its own sentence in the result, with the limit's name, and is recorded.
func TestLimitsOfACageAreTold(t *testing.T) {
	t.Parallel()
	for reason, want := range map[sandboxsupervisorv1.KillReason][2]string{
		sandboxsupervisorv1.KillReason_KILL_REASON_OOM:      {"oom", "limits.memory is 512MiB"},
		sandboxsupervisorv1.KillReason_KILL_REASON_PIDS:     {"pids", "processes and threads"},
		sandboxsupervisorv1.KillReason_KILL_REASON_WALLTIME: {"walltime", "limits.walltime is 10m"},
		sandboxsupervisorv1.KillReason_KILL_REASON_DISK:     {"disk", "wrote more"},
		sandboxsupervisorv1.KillReason_KILL_REASON_SECCOMP:  {"seccomp", "system call"},
	} {
		box := newSandbox()
		box.reason = reason
		c := start(t, box)
		for _, tool := range []string{"shell.bash", "shell.exec"} {
			req := c.request(tool, `{"command": "kill -9 $$"}`)
			req.Context.Cage, req.Context.CageId = policy(), "c1"
			_, result, err := c.run(req)
			if err != nil || result.GetError() != nil {
				t.Fatalf("%s: %v, %v", tool, result, err)
			}
			records := result.GetAudit()
			recorded := records[len(records)-2].GetPayload().GetFields()["killed"].GetStringValue()
			if got := result.GetContent(); !strings.Contains(got, `"killed":"`+want[0]+`"`) || !strings.Contains(got, want[1]) ||
				recorded != want[0] {
				t.Errorf("%s, %s: %s, recorded %q", reason, tool, got, recorded)
			}
			if over := want[0] == "walltime" || want[0] == "disk"; result.GetCageOver() != over {
				t.Errorf("%s, %s: the cage is over: %v", reason, tool, result.GetCageOver())
			}
		}
	}
}

// A running process is listed with its owner and its cage.
func TestListProcesses(t *testing.T) {
	t.Parallel()
	got, err := start(t, newSandbox()).ListProcesses(t.Context(), &toolrunnerv1.ListProcessesRequest{SessionId: "s"})
	id := "c"
	want := &toolrunnerv1.ListProcessesResponse{
		Processes: []*commonv1.RunningProcess{{
			Id: "e", SessionId: "s", ProjectId: "p", RunId: "r", AgentPath: "primary", CageId: &id, Pid: 7, Command: "sleep 1",
			StartedAt:   1,
			MemoryBytes: 2, CpuMs: 3, Background: true,
		}},
		Cages: []*commonv1.RunningCage{{
			Id: "c", SessionId: "s", ProjectId: "p", RunId: "r", AgentPath: "primary", Tier: "userns", BestEffort: []string{"b"},
			StartedAt:   1,
			MemoryBytes: 2, CpuMs: 3, Processes: 4,
		}},
	}
	if d := cmp.Diff(want, got, protocmp.Transform()); d != "" || err != nil {
		t.Errorf("%s, %v", d, err)
	}
}
