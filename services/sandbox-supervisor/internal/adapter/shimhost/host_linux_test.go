package shimhost_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/services/sandbox-supervisor/internal/adapter/shimhost"
	"kaged.dev/services/sandbox-supervisor/internal/core"
	"kaged.dev/services/sandbox-supervisor/shim"
)

func TestMain(m *testing.M) {
	if shim.Invoked() {
		shim.Main()
	}
	goleak.VerifyTestMain(m)
}

// options are the options of a host for one test.
func options(change ...func(*shimhost.Options)) shimhost.Options {
	opts := shimhost.Options{
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Node: ident.New(), Instance: ident.New(), Cgroups: true,
		StartTimeout: time.Minute, KillTimeout: time.Minute, DrainWait: time.Second,
	}
	for _, c := range change {
		c(&opts)
	}
	return opts
}

// run runs a host until the test ends or stop is called.
func run(t testing.TB, opts shimhost.Options) (_ *shimhost.Host, stop func()) {
	t.Helper()
	h := shimhost.New(opts)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return h, stop
}

func spec(t testing.TB, argv ...string) core.Spec {
	return core.Spec{Argv: argv, Dir: t.TempDir(), Env: []string{"PATH=/usr/bin:/bin"}}
}

// spawn starts a command and returns when it has written a line.
func spawn(t *testing.T, h *shimhost.Host, s core.Spec) (p core.Process, line chan string) {
	t.Helper()
	p, err := h.Spawn(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	line = make(chan string, 100)
	go p.Copy(func(_ core.Stream, data []byte) { line <- string(data) })
	return p, line
}

// A lazy host starts its shim with the first command, and also stops without one.
func TestLazy(t *testing.T) {
	t.Parallel()
	lazy := func(o *shimhost.Options) { o.Lazy = true }
	_, stop := run(t, options(lazy, func(o *shimhost.Options) { o.Executable = "/no/such/program" }))
	stop()
	h, stop := run(t, options(lazy))
	if err := h.Ready(t.Context()); !errors.Is(err, fault.Unavailable) {
		t.Errorf("before the first command: %v", err)
	}
	_, line := spawn(t, h, spec(t, "echo", "here"))
	if got := <-line; got != "here\n" {
		t.Errorf("wrote %q", got)
	}
	if err := h.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	stop()
}

// If the embedded program is unavailable, the shim is the supervisor's own executable.
func TestWithoutTheProgram(t *testing.T) {
	t.Parallel()
	missing := func() (*os.File, error) { return nil, errors.New("built without it") }
	h, _ := run(t, options(func(o *shimhost.Options) { o.Program = missing }))
	_, line := spawn(t, h, spec(t, "echo", "here"))
	if got := <-line; got != "here\n" {
		t.Errorf("wrote %q, want here", got)
	}
}

// If the program does not act as a shim, a command is refused without a long wait, and the host stops as usual.
func TestNoShim(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"/bin/false", "/bin/true", "/no/such/program"} {
		h, stop := run(t, options(func(o *shimhost.Options) { o.Executable = program }))
		if _, err := h.Spawn(t.Context(), spec(t, "true")); !errors.Is(err, fault.Unavailable) {
			t.Errorf("%s: Spawn says %v", program, err)
		}
		if err := h.Ready(t.Context()); !errors.Is(err, fault.Unavailable) {
			t.Errorf("%s: Ready says %v", program, err)
		}
		stop()
		if _, err := h.Spawn(t.Context(), spec(t, "true")); !errors.Is(err, fault.Unavailable) {
			t.Errorf("%s: Spawn after the end says %v", program, err)
		}
	}
}

// A host is ready when its shim is, and not before.
func TestReady(t *testing.T) {
	t.Parallel()
	opts := options()
	if err := shimhost.New(opts).Ready(t.Context()); !errors.Is(err, fault.Unavailable) {
		t.Errorf("before Run: %v", err)
	}
	h, _ := run(t, opts)
	if _, err := h.Spawn(t.Context(), spec(t, "no-such-program")); !errors.Is(err, fault.ShellSpawnFailed) {
		t.Errorf("Spawn says %v", err)
	}
	if err := h.Ready(t.Context()); err != nil {
		t.Errorf("with a shim: %v", err)
	}
}

// Two supervisors of one data directory, such as a daemon and a command that runs without it, do not touch each other's
// commands, with cgroups and without. After both have ended the lock is free.
func TestTwoHostsOfOneNode(t *testing.T) {
	t.Parallel()
	lock := filepath.Join(t.TempDir(), "run", "lock")
	node := ident.New()
	for _, cgroups := range []bool{true, false} {
		same := func(o *shimhost.Options) { o.Node, o.Lock, o.Cgroups = node, lock, cgroups }
		first, stopFirst := run(t, options(same))
		a, line := spawn(t, first, spec(t, "sh", "-c", "echo up; exec sleep 1000"))
		<-line
		second, stopSecond := run(t, options(same))
		b, line := spawn(t, second, spec(t, "sh", "-c", "echo up; exec sleep 1000"))
		<-line
		stopSecond()
		<-b.Exited()
		select {
		case <-a.Exited():
			t.Errorf("cgroups %v: the first one's command ended: %+v", cgroups, a.End())
		default:
		}
		stopFirst()
		<-a.Exited()
		if end := a.End(); end.Signal != syscall.SIGKILL {
			t.Errorf("the end is %+v", end)
		}
	}
}

func benchmark(b *testing.B, cgroups bool, terminal *core.Size) {
	h, _ := run(b, options(func(o *shimhost.Options) { o.Cgroups = cgroups }))
	s := spec(b, "/bin/true")
	s.Terminal = terminal
	for b.Loop() {
		p, err := h.Spawn(b.Context(), s)
		if err != nil {
			b.Fatal(err)
		}
		p.Copy(func(core.Stream, []byte) {})
		<-p.Exited()
	}
}

func BenchmarkTerminal(b *testing.B)         { benchmark(b, true, &core.Size{Cols: 80, Rows: 24}) }
func BenchmarkTerminalNoCgroup(b *testing.B) { benchmark(b, false, &core.Size{Cols: 80, Rows: 24}) }
func BenchmarkPipes(b *testing.B)            { benchmark(b, true, nil) }
func BenchmarkPipesNoCgroup(b *testing.B)    { benchmark(b, false, nil) }
