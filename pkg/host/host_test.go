package host_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/host"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/ownpath"
	"kaged.dev/pkg/testkit"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

func TestMain(m *testing.M) {
	if part := os.Getenv("KAGED_TEST_PEER"); part != "" {
		os.Exit(play(part))
	}
	goleak.VerifyTestMain(m)
}

// journal records events in their order.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

// probe is a service that answers as a tool-runner and records its life cycle.
type probe struct {
	toolrunnerv1.UnimplementedToolRunnerServiceServer
	name    string
	journal *journal
	env     *host.Env
	runErr  chan error // ends Run early with this error
	answer  func(context.Context) error
	drain   func(context.Context)
	ready   error
}

func (p *probe) Register(r grpc.ServiceRegistrar) { toolrunnerv1.RegisterToolRunnerServiceServer(r, p) }
func (p *probe) Ready(context.Context) error      { return p.ready }
func (p *probe) Drain(ctx context.Context) {
	p.journal.add("drain " + p.name)
	if p.drain != nil {
		p.drain(ctx)
	}
}

func (p *probe) Run(ctx context.Context) error {
	p.journal.add("run " + p.name)
	select {
	case <-ctx.Done():
		p.journal.add("end " + p.name)
		return nil
	case err := <-p.runErr:
		return err
	}
}

func (p *probe) EndSession(
	ctx context.Context,
	_ *toolrunnerv1.EndSessionRequest,
) (*toolrunnerv1.EndSessionResponse, error) {
	return &toolrunnerv1.EndSessionResponse{}, p.answer(ctx)
}

func (p *probe) module(needs ...string) host.Module {
	return host.Module{Name: p.name, Needs: needs, New: func(env *host.Env) (host.Service, error) {
		p.env = env
		return p, nil
	}}
}

func newProbe(name string, j *journal) *probe {
	return &probe{name: name, journal: j, runErr: make(chan error, 1), answer: func(context.Context) error { return nil }}
}

func options(t *testing.T) host.Options {
	return host.Options{
		DataDir: testkit.Own(t, t.TempDir()), Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Version: "1.2.3",
		Getenv: func(string) string { return "" },
	}
}

// run starts a host and returns a function that stops it and waits for its end.
func run(t *testing.T, h *host.Host) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	started, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- h.Run(ctx, func() { close(started) }) }()
	select {
	case <-started:
	case err := <-done:
		t.Fatalf("the host ended before it had started: %v", err)
	}
	return func() error { cancel(); return <-done }
}

// Needs start first and stop last; each service stops after it has drained.
func TestOrder(t *testing.T) {
	t.Parallel()
	j := &journal{}
	top, middle, bottom := newProbe("top", j), newProbe("middle", j), newProbe("bottom", j)
	h, err := host.New(options(t), top.module("middle", "bottom"), bottom.module(), middle.module("bottom"))
	if err != nil {
		t.Fatal(err)
	}
	if err := run(t, h)(); err != nil {
		t.Fatal(err)
	}
	var stops []string
	for _, l := range j.lines {
		if !strings.HasPrefix(l, "run") {
			stops = append(stops, l)
		}
	}
	want := []string{"drain top", "end top", "drain middle", "end middle", "drain bottom", "end bottom"}
	if !slices.Equal(stops, want) {
		t.Errorf("stopped as %v, want %v", stops, want)
	}
}

// starter is a probe with work before its first call.
type starter struct {
	*probe
	calls func(context.Context) error // calls the service
	err   error
}

func (s *starter) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	err := s.calls(ctx)
	s.journal.add("start " + fault.CodeOf(err).String())
	return s.err
}

// No call reaches a service before Start has returned; a failing Start stops the host.
func TestStartPrecedesTheFirstCall(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err    error
		direct bool
	}{"succeeds": {}, "fails": {err: fault.New(fault.Internal, "no grammar")}, "succeeds without a wire": {direct: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &starter{probe: newProbe("a", &journal{}), err: c.err}
			module := s.module()
			module.Direct = c.direct
			module.New = func(env *host.Env) (host.Service, error) { s.env = env; return s, nil }
			h, err := host.New(options(t), module)
			if err != nil {
				t.Fatal(err)
			}
			s.calls = func(ctx context.Context) error {
				_, err := toolrunnerv1.NewToolRunnerServiceClient(h.Dial("a")).EndSession(ctx, &toolrunnerv1.EndSessionRequest{})
				return err
			}
			if c.err != nil {
				if err := h.Run(t.Context(), nil); !errors.Is(err, fault.Internal) || slices.Contains(s.journal.lines, "run a") {
					t.Errorf("got %v after %q, want internal and no run", err, s.journal.lines)
				}
				return
			}
			stop := run(t, h)
			if err := s.calls(t.Context()); err != nil {
				t.Errorf("got %v from a call after Start", err)
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
			if first := s.journal.lines[0]; first != "start deadline_exceeded" && first != "start unavailable" {
				t.Errorf("got %q first, want a call that the service was not there for", first)
			}
		})
	}
}

// A cycle of needs and a duplicate name are refused before any start.
func TestRefusedConstellations(t *testing.T) {
	t.Parallel()
	j := &journal{}
	if _, err := host.New(options(t), newProbe("a", j).module("b"), newProbe("b", j).module("a")); err == nil {
		t.Error("a ring was accepted")
	}
	if _, err := host.New(options(t), newProbe("a", j).module(), newProbe("a", j).module()); err == nil {
		t.Error("a name twice was accepted")
	}
}

// Only its own process can call a private host's services, whatever addresses are configured.
func TestPrivate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, err := config.Parse("local.toml", []byte("[services.probe]\nlisten = \"unix:"+dir+"/probe.sock\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	opts := options(t)
	opts.DataDir, opts.File, opts.Private = ownpath.Path{}, file, true
	p := newProbe("probe", &journal{})
	h, err := host.New(opts, p.module())
	if err != nil {
		t.Fatal(err)
	}
	stop := run(t, h)
	if _, err := grpc_health_v1.NewHealthClient(h.Dial("probe")).
		Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 || p.env.Address() != "" || !p.env.Private {
		t.Errorf("it listens: %v %v %q", entries, err, p.env.Address())
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// The failure of one service stops all, and Run returns its error.
func TestOneFailureStopsAll(t *testing.T) {
	t.Parallel()
	j := &journal{}
	a, b := newProbe("a", j), newProbe("b", j)
	h, err := host.New(options(t), a.module("b"), b.module())
	if err != nil {
		t.Fatal(err)
	}
	b.runErr <- fault.New(fault.Unavailable, "no disk")
	if err := h.Run(t.Context(), nil); !errors.Is(err, fault.Unavailable) {
		t.Errorf("Run = %v", err)
	}
	if !slices.Contains(j.lines, "end a") {
		t.Errorf("the other service was not stopped: %v", j.lines)
	}
}

// Errors, callers and panics pass between services of one process as they pass over a transport.
func TestCallsInsideTheProcess(t *testing.T) {
	t.Parallel()
	t.Run("wire", func(t *testing.T) { t.Parallel(); callsInsideTheProcess(t, false) })
	t.Run("direct", func(t *testing.T) { t.Parallel(); callsInsideTheProcess(t, true) })
}

func callsInsideTheProcess(t *testing.T, direct bool) {
	j := &journal{}
	a, b := newProbe("a", j), newProbe("b", j)
	called := b.module()
	called.Direct = direct
	h, err := host.New(options(t), a.module("b"), called)
	if err != nil {
		t.Fatal(err)
	}
	defer run(t, h)()
	client := toolrunnerv1.NewToolRunnerServiceClient(a.env.Dial("b"))
	call := func(ctx context.Context) error {
		_, err := client.EndSession(ctx, &toolrunnerv1.EndSessionRequest{})
		return err
	}

	want := ident.Caller{UserID: "ada", Email: "ada@localhost", RequestID: "R", AuthMode: "loopback"}
	b.answer = func(ctx context.Context) error {
		if got := ident.CallerFrom(ctx); got != want {
			t.Errorf("caller = %+v", got)
		}
		return nil
	}
	if err := call(ident.WithCaller(t.Context(), want)); err != nil {
		t.Error(err)
	}

	sent := fault.New(fault.DSLInvalid, "Bad file.").With("errors", []any{map[string]any{"line": 3.0}}).WithHTTP(418)
	b.answer = func(context.Context) error { return errors.Join(errors.New("secret"), sent) }
	got := fault.From(call(t.Context()))
	if got.Code != sent.Code || got.Msg != sent.Msg || got.HTTP != 418 ||
		got.Details["errors"].([]any)[0].(map[string]any)["line"] != 3.0 {
		t.Errorf("came back as %+v", got)
	}

	b.answer = func(context.Context) error { return errors.New("password=hunter2") }
	if got := fault.From(call(t.Context())); got.Code != fault.Internal || strings.Contains(got.Error(), "hunter2") {
		t.Errorf("a foreign error came back as %v", got)
	}
	b.answer = func(context.Context) error { panic("boom") }
	if got := fault.From(call(t.Context())); got.Code != fault.Internal || strings.Contains(got.Error(), "boom") {
		t.Errorf("a panic came back as %v", got)
	}
}

// Each service has a socket that only its owner can use and that answers health checks. The socket, and a short folder
// made for it, are removed when the service stops.
func TestSockets(t *testing.T) {
	t.Parallel()
	p := newProbe("probe", &journal{})
	opts := options(t)
	opts.DataDir = testkit.Own(t, opts.DataDir.Join(strings.Repeat("long", 25))) // too long for a socket's path
	h, err := host.New(opts, p.module())
	if err != nil {
		t.Fatal(err)
	}
	stop := run(t, h)
	path := host.SocketPath(opts.DataDir.String(), "probe")
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("socket: %v %v", info, err)
	}
	conn, err := p.env.DialAddress("probe", "unix:"+path)
	if err != nil {
		t.Fatal(err)
	}
	health := grpc_health_v1.NewHealthClient(conn)
	check := func() grpc_health_v1.HealthCheckResponse_ServingStatus {
		resp, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return resp.GetStatus()
	}
	if s := check(); s != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("health = %v", s)
	}
	p.ready = fault.New(fault.Unavailable, "no disk")
	if s := check(); s != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("health while it is not ready = %v", s)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Dir(path)); !os.IsNotExist(err) {
		t.Errorf("the socket's folder stayed: %v", err)
	}
}

// A service of another process is found at its configured address, or at its path in the data directory.
func TestCallsBetweenProcesses(t *testing.T) {
	t.Parallel()
	opts := options(t)
	p := newProbe("b", &journal{})
	server, err := host.New(opts, p.module())
	if err != nil {
		t.Fatal(err)
	}
	defer run(t, server)()
	a := newProbe("a", &journal{})
	client, err := host.New(opts, a.module("b"))
	if err != nil {
		t.Fatal(err)
	}
	defer run(t, client)()
	if _, err := toolrunnerv1.NewToolRunnerServiceClient(a.env.Dial("b")).
		EndSession(t.Context(), &toolrunnerv1.EndSessionRequest{}); err != nil {
		t.Error(err)
	}
	if p.env.Node != a.env.Node || p.env.Instance == a.env.Instance {
		t.Errorf("node %s %s, instance %s %s", p.env.Node, a.env.Node, p.env.Instance, a.env.Instance)
	}
}

// A data directory keeps its id over starts, and gets a new one if a power cut has left an empty file.
func TestNode(t *testing.T) {
	t.Parallel()
	opts := options(t)
	node := func() string {
		p := newProbe("a", &journal{})
		if _, err := host.New(opts, p.module()); err != nil {
			t.Fatal(err)
		}
		return p.env.Node
	}
	first := node()
	if again := node(); !ident.Valid(first) || again != first {
		t.Errorf("the node is %q and then %q", first, again)
	}
	for _, damage := range []string{"", "\x00\x00\x00"} {
		if err := os.WriteFile(opts.DataDir.Join("node"), []byte(damage), 0o600); err != nil {
			t.Fatal(err)
		}
		other := node()
		if again := node(); !ident.Valid(other) || other == first || again != other {
			t.Errorf("after damage the node is %q and then %q, before it was %q", other, again, first)
		}
	}
}

// A socket with a too long path is moved to a folder that any user could have made. A folder that other users can
// access is used neither to listen nor to dial.
func TestShortDirOfSomebodyElse(t *testing.T) {
	t.Parallel()
	p := newProbe("probe", &journal{})
	opts := options(t)
	opts.DataDir = testkit.Own(t, opts.DataDir.Join(strings.Repeat("long", 25)))
	path := host.SocketPath(opts.DataDir.String(), "probe")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(filepath.Dir(path))
	if err := os.Chmod(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	h, err := host.New(opts, p.module())
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Run(t.Context(), nil); !errors.Is(err, fault.Unavailable) ||
		!strings.Contains(fault.From(err).Msg, "this user's alone") {
		t.Errorf("listening: %v", err)
	}
	client := newProbe("client", &journal{})
	if _, err := host.New(opts, client.module("probe")); err != nil {
		t.Fatal(err)
	}
	_, err = toolrunnerv1.NewToolRunnerServiceClient(client.env.Dial("probe")).
		EndSession(t.Context(), &toolrunnerv1.EndSessionRequest{})
	if !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "this user's alone") {
		t.Errorf("dialling: %v", err)
	}
}

// [host] of the file sets durations; invalid ones are refused with their key.
func TestLimits(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]config.Host{
		"drain_grace": {DrainGrace: -1}, "keepalive": {Keepalive: config.Duration(time.Second)},
		"stop_timeout": {StopTimeout: 1},
	} {
		opts := options(t)
		opts.File = &config.File{Host: h}
		if _, err := host.New(opts, newProbe("a", &journal{}).module()); !errors.Is(err, fault.BadRequest) ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
