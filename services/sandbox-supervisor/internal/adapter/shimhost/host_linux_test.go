package shimhost_test

import (
	"context"
	"io"
	"log/slog"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

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

// run runs a host until the test ends.
func run(t testing.TB, cgroups bool) *shimhost.Host {
	t.Helper()
	h := shimhost.New(shimhost.Options{
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Node: ident.New(), Instance: ident.New(), Cgroups: cgroups,
		StartTimeout: 10 * time.Second, KillTimeout: 15 * time.Second, DrainWait: time.Second,
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return h
}

func spec(t testing.TB, argv ...string) core.Spec {
	return core.Spec{Argv: argv, Dir: t.TempDir(), Env: []string{"PATH=" + os.Getenv("PATH")}}
}

func benchmark(b *testing.B, cgroups bool, terminal *core.Size) {
	h := run(b, cgroups)
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
