package sandboxsupervisor_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/host"
	"kaged.dev/pkg/testkit"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
	sandboxsupervisor "kaged.dev/services/sandbox-supervisor"
	"kaged.dev/services/sandbox-supervisor/shim"
)

func TestMain(m *testing.M) {
	if shim.Invoked() {
		shim.Main()
	}
	if helper := os.Getenv("KAGED_TEST_HELPER"); helper != "" {
		helpers[helper]()
		return
	}
	goleak.VerifyTestMain(m)
}

// helpers are the entry points of this test binary as a helper process; files that need one add it.
var helpers = map[string]func(){}

// The service keeps the promises of every service.
func TestLifecycle(t *testing.T) {
	testkit.Lifecycle(t, sandboxsupervisor.Module, func() host.Options { return testkit.Options(t) })
}

// An invalid configuration is refused with the key's name.
func TestConfig(t *testing.T) {
	t.Parallel()
	for key, change := range map[string]func(*sandboxsupervisor.Config){
		"cgroups":             func(c *sandboxsupervisor.Config) { c.Cgroups = "maybe" },
		"kill_grace":          func(c *sandboxsupervisor.Config) { c.KillGrace = -1 },
		"cancel_grace":        func(c *sandboxsupervisor.Config) { c.CancelGrace = 0 },
		"drain_wait":          func(c *sandboxsupervisor.Config) { c.DrainWait = 1 << 62 },
		"max_commands":        func(c *sandboxsupervisor.Config) { c.MaxCommands = 0 },
		"max_command_bytes":   func(c *sandboxsupervisor.Config) { c.MaxCommandBytes = 1 << 30 },
		"max_command_strings": func(c *sandboxsupervisor.Config) { c.MaxCommandStrings = -1 },
		"stdin_bytes":         func(c *sandboxsupervisor.Config) { c.StdinBytes = 0 },
		"max_cages":           func(c *sandboxsupervisor.Config) { c.MaxCages = 0 },
		"cage_uid":            func(c *sandboxsupervisor.Config) { c.CageUID = 0 },
		"system_paths":        func(c *sandboxsupervisor.Config) { c.SystemPaths = []string{"/usr", "/etc"} },
		"tmp_bytes":           func(c *sandboxsupervisor.Config) { c.TmpBytes = 1 },
		"net_connections":     func(c *sandboxsupervisor.Config) { c.NetConnections = 0 },
		"net_resolve_timeout": func(c *sandboxsupervisor.Config) { c.NetResolveTimeout = 0 },
		"net_idle_timeout":    func(c *sandboxsupervisor.Config) { c.NetIdleTimeout = 1 },
		"net_resolved_for":    func(c *sandboxsupervisor.Config) { c.NetResolvedFor = 0 },
		"net_resolved_names":  func(c *sandboxsupervisor.Config) { c.NetResolvedNames = 0 },
		"net_credential_body": func(c *sandboxsupervisor.Config) { c.NetCredentialBody = 0 },
		"private_hosts":       func(c *sandboxsupervisor.Config) { c.PrivateHosts = []string{"*"} },
		"credentials": func(c *sandboxsupervisor.Config) {
			c.Credentials = map[string]sandboxsupervisor.Credential{"x:443": {Header: "A b", Value: "v"}}
		},
		"cage_spare":        func(c *sandboxsupervisor.Config) { c.CageSpare = config.Duration(48 * time.Hour) },
		"session_processes": func(c *sandboxsupervisor.Config) { c.SessionProcesses = 0 },
		"kept_output_bytes": func(c *sandboxsupervisor.Config) { c.KeptOutputBytes = -1 },
		"ended_processes":   func(c *sandboxsupervisor.Config) { c.EndedProcesses = 0 },
		"ended_bytes":       func(c *sandboxsupervisor.Config) { c.EndedBytes = 0 },
		"ended_for":         func(c *sandboxsupervisor.Config) { c.EndedFor = 0 },
	} {
		cfg := sandboxsupervisor.DefaultConfig()
		if err := cfg.Validate(); err != nil {
			t.Fatalf("the defaults: %v", err)
		}
		change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.HasPrefix(err.Error(), key+" ") {
			t.Errorf("%s: %v", key, err)
		}
		if _, err := sandboxsupervisor.New(cfg, sandboxsupervisor.Deps{}); err == nil {
			t.Errorf("%s: a service was built with it", key)
		}
	}
}

// settings are environment variables for the service under test, short of their common beginning.
type settings map[string]string

// serve runs the service until the test ends and returns a client of it.
func serve(t testing.TB, set settings) sandboxsupervisorv1.SandboxServiceClient {
	t.Helper()
	client, _ := serveHost(t, set)
	return client
}

func serveHost(t testing.TB, set settings) (sandboxsupervisorv1.SandboxServiceClient, *testkit.Running) {
	t.Helper()
	opts := testkit.Options(t)
	opts.Log = slog.New(shimLog{opts.Log.Handler(), t})
	opts.NoSandbox = set["NO_SANDBOX"] != ""
	opts.Getenv = func(name string) string { return set[strings.TrimPrefix(name, "KAGED_SERVICES_SANDBOX_SUPERVISOR_")] }
	h, err := host.New(opts, sandboxsupervisor.Module)
	if err != nil {
		t.Fatal(err)
	}
	running := testkit.Start(t, h)
	t.Cleanup(func() { testkit.Stop(t, running) })
	return sandboxsupervisorv1.NewSandboxServiceClient(h.Dial("sandbox-supervisor")), running
}

// shimLog is a log that fails the test at any message of the shim: a panic or a race report.
type shimLog struct {
	slog.Handler
	t testing.TB
}

func (l shimLog) Enabled(context.Context, slog.Level) bool { return true }
func (l shimLog) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l shimLog) WithGroup(string) slog.Handler            { return l }
func (l shimLog) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "shim: ") {
		l.t.Error(r.Message)
	}
	return nil
}

// eachWay runs a test with cgroups, where they can be had, and without.
func eachWay(t *testing.T, test func(t *testing.T, set settings)) {
	t.Helper()
	for _, cgroups := range []string{"auto", "off"} {
		t.Run("cgroups="+cgroups, func(t *testing.T) {
			t.Parallel()
			test(t, settings{"CGROUPS": cgroups})
		})
	}
}

// shell returns the start of a shell command with a terminal.
func shell(
	t testing.TB,
	command string,
	change ...func(*sandboxsupervisorv1.ExecStart),
) *sandboxsupervisorv1.ExecStart {
	start := &sandboxsupervisorv1.ExecStart{
		Owner: &sandboxsupervisorv1.Owner{SessionId: "session", RunId: "run", CallId: "call", ProjectId: "project"},
		Argv:  []string{"/bin/sh", "-c", command}, Cwd: t.TempDir(),
		Env: map[string]string{"PATH": "/usr/bin:/bin"}, Terminal: &sandboxsupervisorv1.Terminal{},
	}
	for _, c := range change {
		c(start)
	}
	return start
}

func pipes(s *sandboxsupervisorv1.ExecStart) { s.Terminal = nil }

func env(key, value string) func(*sandboxsupervisorv1.ExecStart) {
	return func(s *sandboxsupervisorv1.ExecStart) {
		s.Env = maps.Clone(s.Env)
		s.Env[key] = value
	}
}

func timeout(ms int64) func(*sandboxsupervisorv1.ExecStart) {
	return func(s *sandboxsupervisorv1.ExecStart) { s.TimeoutMs = ms }
}

func session(id string) func(*sandboxsupervisorv1.ExecStart) {
	return func(s *sandboxsupervisorv1.ExecStart) { s.Owner = &sandboxsupervisorv1.Owner{SessionId: id} }
}

// running is a command as its caller sees it.
type running struct {
	t              testing.TB
	stream         sandboxsupervisorv1.SandboxService_ExecClient
	cancel         context.CancelFunc
	started        *sandboxsupervisorv1.ExecStarted
	stdout, stderr strings.Builder
	exited         *sandboxsupervisorv1.ExecExited
}

// begin starts a command and returns when it runs.
func begin(
	t testing.TB,
	client sandboxsupervisorv1.SandboxServiceClient,
	start *sandboxsupervisorv1.ExecStart,
) *running {
	t.Helper()
	r, err := tryBegin(t, client, start)
	if err != nil {
		t.Fatalf("starting %q: %v", start.GetArgv(), err)
	}
	return r
}

func tryBegin(
	t testing.TB,
	client sandboxsupervisorv1.SandboxServiceClient,
	start *sandboxsupervisorv1.ExecStart,
) (*running, error) {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	stream, err := client.Exec(ctx)
	if err != nil {
		return nil, err
	}
	r := &running{t: t, stream: stream, cancel: cancel}
	r.send(&sandboxsupervisorv1.ExecRequest{Request: &sandboxsupervisorv1.ExecRequest_Start{Start: start}})
	event, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	if r.started = event.GetStarted(); r.started == nil {
		t.Fatalf("the first event is %v", event)
	}
	return r, nil
}

func (r *running) send(req *sandboxsupervisorv1.ExecRequest) {
	r.t.Helper()
	if err := r.stream.Send(req); err != nil && !errors.Is(err, io.EOF) { // EOF: the stream has ended, Recv says how
		r.t.Fatalf("sending: %v", err)
	}
}

func (r *running) write(text string) {
	r.send(&sandboxsupervisorv1.ExecRequest{Request: &sandboxsupervisorv1.ExecRequest_Stdin{Stdin: []byte(text)}})
}

func (r *running) closeStdin() {
	r.send(
		&sandboxsupervisorv1.ExecRequest{
			Request: &sandboxsupervisorv1.ExecRequest_CloseStdin{CloseStdin: &sandboxsupervisorv1.CloseStdin{}},
		},
	)
}

func (r *running) signal(name string) {
	r.send(
		&sandboxsupervisorv1.ExecRequest{
			Request: &sandboxsupervisorv1.ExecRequest_Signal{Signal: &sandboxsupervisorv1.Signal{Name: name}},
		},
	)
}

func (r *running) resize(cols, rows uint32) {
	r.send(&sandboxsupervisorv1.ExecRequest{Request: &sandboxsupervisorv1.ExecRequest_Resize{
		Resize: &sandboxsupervisorv1.Resize{Terminal: &sandboxsupervisorv1.Terminal{Cols: cols, Rows: rows}},
	}})
}

// next takes one event; it returns false after the last.
func (r *running) next() (bool, error) {
	event, err := r.stream.Recv()
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if r.exited != nil {
		r.t.Errorf("after the end came %v", event)
	}
	switch {
	case event.GetOutput().GetStream() == sandboxsupervisorv1.Stream_STREAM_STDERR:
		r.stderr.Write(event.GetOutput().GetData())
	case event.GetOutput() != nil:
		r.stdout.Write(event.GetOutput().GetData())
	case event.GetExited() != nil:
		r.exited = event.GetExited()
	}
	return true, nil
}

// until reads output until it holds text, and returns all of it.
func (r *running) until(text string) string {
	r.t.Helper()
	for !strings.Contains(r.stdout.String(), text) {
		if more, err := r.next(); err != nil || !more {
			r.t.Fatalf("waiting for %q: the command ended with %v, %v after %q", text, r.exited, err, r.stdout.String())
		}
	}
	return r.stdout.String()
}

// wait reads to the end, which must be an exit.
func (r *running) wait() *sandboxsupervisorv1.ExecExited {
	r.t.Helper()
	for {
		more, err := r.next()
		if err != nil {
			r.t.Fatalf("waiting for the end: %v", err)
		}
		if !more {
			break
		}
	}
	if r.exited == nil {
		r.t.Fatal("the stream ended without the command's end")
	}
	return r.exited
}

// refused expects a command not to start.
func refused(
	t *testing.T,
	client sandboxsupervisorv1.SandboxServiceClient,
	start *sandboxsupervisorv1.ExecStart,
	code fault.Code,
	words string,
) {
	t.Helper()
	_, err := tryBegin(t, client, start)
	if !errors.Is(err, code) || !strings.Contains(fault.From(err).Msg, words) {
		t.Errorf("%.80q: %v, want %s with %q", start.GetArgv(), err, code, words)
	}
}
