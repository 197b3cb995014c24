package dappool_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/host"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/testkit"
	dappool "kaged.dev/services/dap-pool"
	sandboxsupervisor "kaged.dev/services/sandbox-supervisor"
	"kaged.dev/services/sandbox-supervisor/shim"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	dappoolv1 "kaged.dev/proto/gen/kaged/dappool/v1"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

func TestMain(m *testing.M) {
	if shim.Invoked() {
		shim.Main()
	}
	if err := findBun(); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// bun is the folder of the bun that scripts/setup.sh test installs, with links resolved.
var bun string

// findBun puts the folder of bun first on PATH.
func findBun() error {
	installed, err := filepath.Glob("../../bin/servers/bun/node_modules/@oven/bun-*/bin")
	if err != nil || len(installed) == 0 {
		return errors.New("bun is missing; scripts/setup.sh test installs it")
	}
	if bun, err = filepath.EvalSymlinks(installed[0]); err == nil {
		bun, err = filepath.Abs(bun)
	}
	if err != nil {
		return err
	}
	return os.Setenv("PATH", bun+":"+os.Getenv("PATH"))
}

// The service follows the rules for every service.
func TestLifecycle(t *testing.T) {
	testkit.Lifecycle(t, dappool.Module, func() host.Options { return testkit.Options(t) })
}

// A limit that would make every debug session fail is refused with its key.
func TestConfig(t *testing.T) {
	t.Parallel()
	if err := dappool.DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	for key, change := range map[string]func(*dappool.Config){
		"debug_sessions": func(c *dappool.Config) { c.DebugSessions = 0 },
		"stop_timeout":   func(c *dappool.Config) { c.StopTimeout = 0 },
		"message_bytes":  func(c *dappool.Config) { c.MessageBytes = -1 },
	} {
		c := dappool.DefaultConfig()
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// bench is the service with a sandbox supervisor, a project, and an agent.
type bench struct {
	dappoolv1.DAPPoolServiceClient
	sandbox sandboxsupervisorv1.SandboxServiceClient
	t       *testing.T
	root    string
	agent   *dappoolv1.Agent
	cage    *commonv1.CagePolicy
	cageID  string
	running *testkit.Running
}

func serve(t *testing.T, file ...*config.File) *bench {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	opts := testkit.Options(t)
	opts.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	if len(file) > 0 {
		opts.File = file[0]
	}
	h, err := host.New(opts, dappool.Module, sandboxsupervisor.Module)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{
		t: t, root: root, running: testkit.Start(t, h),
		agent: &dappoolv1.Agent{SessionId: "session", RunId: "run", ProjectId: "project", AgentPath: "primary"},
	}
	b.DAPPoolServiceClient = dappoolv1.NewDAPPoolServiceClient(h.Dial("dap-pool"))
	b.sandbox = sandboxsupervisorv1.NewSandboxServiceClient(h.Dial("sandbox-supervisor"))
	t.Cleanup(func() { testkit.Stop(t, b.running) })
	return b
}

// caged puts the agent into a cage that is held until the test ends.
func (b *bench) caged(seccomp string) *bench {
	b.t.Helper()
	b.cageID = ident.New()
	b.cage = &commonv1.CagePolicy{
		Fs:      []*commonv1.CageMount{{Mode: "rw", Path: "project:/"}, {Mode: "ro", Path: bun}},
		Seccomp: seccomp, State: "ephemeral",
		Capabilities: []string{"exec"},
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.t.Cleanup(cancel)
	stream, err := b.sandbox.HoldCage(ctx, &sandboxsupervisorv1.HoldCageRequest{
		CageId: b.cageID, Owner: &sandboxsupervisorv1.Owner{SessionId: "session", ProjectId: "project"},
		AgentPath: "primary", Policy: b.cage, ProjectRoot: b.root,
	})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return b
}

func (b *bench) write(name, content string) string {
	b.t.Helper()
	path := filepath.Join(b.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// environment returns the environment of an adapter. An uncaged adapter uses the caches of this machine.
func (b *bench) environment(more map[string]string) map[string]string {
	env := map[string]string{"PATH": os.Getenv("PATH"), "LANG": "C.UTF-8", "GOFLAGS": "-mod=mod", "GOPROXY": "off"}
	if b.cage == nil {
		env["HOME"] = os.Getenv("HOME")
	}
	maps.Copy(env, more)
	return env
}

// start starts a debug session.
func (b *bench) start(runtime, program string, more func(*dappoolv1.StartRequest)) (*commonv1.DebugState, error) {
	req := &dappoolv1.StartRequest{
		Agent: b.agent, Root: b.root, Cage: b.cage, CageId: b.cageID, Env: b.environment(nil), Runtime: runtime,
		Program: program, Cwd: b.root, StopOnEntry: true, TimeoutMs: 60_000,
	}
	if more != nil {
		more(req)
	}
	res, err := b.Start(b.t.Context(), req)
	return res.GetState(), err
}

// must starts a debug session that stops at its entry.
func (b *bench) must(runtime, program string, more func(*dappoolv1.StartRequest)) {
	b.t.Helper()
	state, err := b.start(runtime, program, more)
	if err != nil {
		b.t.Fatal(fault.From(err), fault.From(err).Details)
	}
	if state.GetStatus() != "stopped" || state.GetStoppedReason() != "entry" || len(state.GetThreads()) == 0 ||
		!strings.HasPrefix(state.GetDebugSessionId(), "dap_") {
		b.t.Fatalf("it begins as %v", state)
	}
}

// act executes an action.
func (b *bench) act(action dappoolv1.Action, more func(*dappoolv1.ActRequest)) (*dappoolv1.ActResponse, error) {
	req := &dappoolv1.ActRequest{
		Agent: b.agent, Action: action, TimeoutMs: 60_000, Scope: "local", Context: "watch", Count: 100,
	}
	if more != nil {
		more(req)
	}
	return b.Act(b.t.Context(), req)
}

// do executes an action that must succeed.
func (b *bench) do(action dappoolv1.Action, more func(*dappoolv1.ActRequest)) *dappoolv1.ActResponse {
	b.t.Helper()
	res, err := b.act(action, more)
	if err != nil {
		b.t.Fatalf("%v: %v %v", action, err, fault.From(err).Details)
	}
	return res
}

// at sets a breakpoint at the line of a file with a text.
func (b *bench) at(path, text string, more func(*dappoolv1.ActRequest)) *commonv1.DebugBreakpoint {
	b.t.Helper()
	return b.do(dappoolv1.Action_ACTION_SET_BREAKPOINT, func(r *dappoolv1.ActRequest) {
		r.Path, r.Line = path, b.line(path, text)
		if more != nil {
			more(r)
		}
	}).GetBreakpoint()
}

// line returns the number of the line of a file with a text.
func (b *bench) line(path, text string) int32 {
	b.t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		b.t.Fatal(err)
	}
	before, _, ok := strings.Cut(string(data), text)
	if !ok {
		b.t.Fatalf("%s has no %q", path, text)
	}
	return int32(strings.Count(before, "\n") + 1)
}

// value returns the value of a local variable.
func (b *bench) value(name string) string {
	b.t.Helper()
	res := b.do(dappoolv1.Action_ACTION_VARIABLES, nil)
	for _, v := range res.GetVariables() {
		if v.GetName() == name {
			return v.GetValue()
		}
	}
	b.t.Errorf("no %s among %v", name, res.GetVariables())
	return ""
}

// gone reports whether a process has ended.
func gone(pid int64) bool { return errors.Is(syscall.Kill(int(pid), 0), syscall.ESRCH) }

// adapter returns the process id of the only adapter.
func (b *bench) adapter() int64 {
	b.t.Helper()
	list, err := b.ListDebugSessions(b.t.Context(), &dappoolv1.ListDebugSessionsRequest{SessionId: "session"})
	if err != nil || len(list.GetSessions()) != 1 {
		b.t.Fatalf("sessions %v, %v", list.GetSessions(), err)
	}
	return list.GetSessions()[0].GetPid()
}

// recorded returns the events of records, with the reasons of ends.
func recorded(records []*commonv1.AuditRecord) string {
	var list []string
	for _, r := range records {
		list = append(list, r.GetEventType())
		if reason := r.GetPayload().GetFields()["reason"].GetStringValue(); reason != "" {
			list = append(list, reason)
		}
	}
	return strings.Join(list, " ")
}
