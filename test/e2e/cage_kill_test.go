package e2e_test

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"google.golang.org/grpc"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
	"kaged.dev/test/e2e/kagedtest"
)

// hold makes the tool runner hold a cage of the project, as the harness does, and returns the function that receives
// its events.
func (h *hands) hold(t *testing.T) (id string, recv func() (*toolrunnerv1.HoldCageEvent, error)) {
	t.Helper()
	id = ident.New()
	stream, err := h.tools(t).HoldCage(t.Context(), &toolrunnerv1.HoldCageRequest{CageId: id, Context: h.inCage("")},
		grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	opened, err := stream.Recv()
	if err != nil || opened.GetOpened().GetCageId() != id {
		t.Fatalf("holding a cage: %v, %v", opened, err)
	}
	return id, stream.Recv
}

// inCage returns the context of an agent with commands in a cage.
func (h *hands) inCage(id string) *toolrunnerv1.ToolContext {
	return &toolrunnerv1.ToolContext{
		SessionId: h.session, RunId: "r", Caller: "primary", ProjectId: "p", ProjectRoot: h.dir,
		Tools: []string{"shell.bash"}, CageId: id,
		Cage: &commonv1.CagePolicy{
			Fs: []*commonv1.CageMount{{Mode: "rw", Path: "project:/"}}, Capabilities: []string{"shell"}, Seccomp: "default",
			State: "ephemeral",
		},
	}
}

// busy starts a stubborn command in the cage and returns a function that waits for its end.
func (h *hands) busy(t *testing.T, id string) (ended func() error) {
	t.Helper()
	stream, err := h.tools(t).RunTool(t.Context(), &toolrunnerv1.RunToolRequest{
		CallId: ident.New(), Tool: "shell.bash", Context: h.inCage(id),
		Input: `{"command": "trap '' TERM HUP; echo up; setsid sleep 1000 & sleep 1000", "env": {"MARK": "` + h.dir + `"}}`,
	})
	if err != nil {
		t.Fatal(err)
	}
	for { // the tool runner has recorded the start of the command when it returns output
		event, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if event.GetOutput() != nil {
			break
		}
	}
	kagedtest.Eventually(t, "the command runs", func() bool { return len(h.commands(t)) > 1 })
	return func() error {
		for {
			event, err := stream.Recv()
			if err != nil {
				return err
			}
			if result := event.GetResult(); result != nil {
				return fault.FromProto(result.GetError())
			}
		}
	}
}

// A cage ends with the stream that holds it: kill -9 of the tool runner breaks the stream, and ends the cage and
// everything in it although the supervisor still runs.
func TestKilledToolRunnerEndsItsCages(t *testing.T) {
	t.Parallel()
	h := startHands(t)
	id, _ := h.hold(t)
	h.busy(t, id)
	h.restart(t, "tool-runner", &h.runner)
	kagedtest.Eventually(t, "nothing runs", func() bool { return len(h.commands(t)) == 0 })
	kagedtest.Eventually(t, "there is no cage", func() bool {
		now, err := h.tools(t).ListProcesses(t.Context(), &toolrunnerv1.ListProcessesRequest{}, grpc.WaitForReady(true))
		return err == nil && len(now.GetCages())+len(now.GetProcesses()) == 0
	})
	// The next cage of the same agent works.
	id, _ = h.hold(t)
	h.busy(t, id)
}

// kill -9 of the supervisor ends every cage. The cage's holder is informed, the call in it is interrupted, and the next
// supervisor can create cages again.
func TestKilledSupervisorEndsItsCages(t *testing.T) {
	t.Parallel()
	h := startHands(t)
	id, recv := h.hold(t)
	ended := h.busy(t, id)
	h.restart(t, "sandbox-supervisor", &h.box)
	if _, err := recv(); !errors.Is(err, fault.Unavailable) {
		t.Errorf("who held the cage is told %v", err)
	}
	if err := ended(); !errors.Is(err, fault.Interrupted) {
		t.Errorf("the call in it ended with %v", err)
	}
	kagedtest.Eventually(t, "nothing runs", func() bool { return len(h.commands(t)) == 0 })
	h.ready(t)
	id, _ = h.hold(t)
	h.busy(t, id)
}

// kill -9 of a command in a cage without a daemon leaves nothing on the host, even if kaged is never started again.
func TestKilledCageExec(t *testing.T) {
	t.Parallel()
	w := kagedtest.NewWorld(t, "")
	dir := filepath.Join(w.Dir, "project")
	kagedtest.Write(t, dir, "src/a", "a\n")
	policy := filepath.Join(w.Dir, "cage.yaml")
	kagedtest.Write(t, w.Dir, "cage.yaml", "fs:\n  - {mode: rw, path: ./src}\nlimits: {memory: 64MiB, pids: 50}\n")
	p := kagedtest.Command(t, "kaged", w.Env, "cage", "exec", "--policy", policy, "--project", dir, "--", "sh", "-c",
		"echo up; sleep 1000")
	if line := p.Line(t); line != "up" {
		t.Fatalf("it wrote %q", line)
	}
	left := func() []string {
		stubs, err := filepath.Glob(filepath.Join(dir, "src", ".*"))
		journals, err2 := filepath.Glob(filepath.Join(w.DataDir, "cages", "*"))
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		return slices.Concat(stubs, journals, kagedtest.ControlGroups(w.DataDir))
	}
	if len(left()) < 2 {
		t.Errorf("of the cage there is only %v on the host", left())
	}
	p.Kill()
	<-p.Done()
	kagedtest.Eventually(t, "nothing is left", func() bool { return len(left()) == 0 })
}
