package lsppool_test

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/host"
	"kaged.dev/pkg/testkit"
	lsppool "kaged.dev/services/lsp-pool"
	sandboxsupervisor "kaged.dev/services/sandbox-supervisor"

	lsppoolv1 "kaged.dev/proto/gen/kaged/lsppool/v1"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

// A pool takes the pipes of its servers: no message passes through the supervisor's stream, a crash included.
func TestPipesAreTaken(t *testing.T) {
	t.Parallel()
	var relayed traffic
	if crashAndAsk(t, relayed.count); relayed.input.Load() != 0 || relayed.output.Load() != 0 {
		t.Errorf("%d messages to the servers and %d of them passed the supervisor", relayed.input.Load(),
			relayed.output.Load())
	}
}

// A pool that cannot take the pipes of its servers, because the supervisor's socket is not on its machine, gets its
// answers through the stream, and notices a crash there.
func TestRelayed(t *testing.T) {
	t.Parallel()
	relayed := traffic{elsewhere: true}
	if crashAndAsk(t, relayed.count); relayed.input.Load() == 0 || relayed.output.Load() == 0 {
		t.Error("no message passed the supervisor")
	}
}

// crashAndAsk queries a server, kills it, and queries it again. Streams from the pool to the supervisor pass through
// between.
func crashAndAsk(t *testing.T, between grpc.StreamClientInterceptor) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	opts := testkit.Options(t)
	opts.File, err = config.Parse("local.toml", fmt.Appendf(nil,
		"[lsp.servers.fake]\ncommand = [%q]\nextensions = [\".fake\"]\nenv = {KAGED_FAKE_LSP = \"pull\"}\n", exe))
	if err != nil {
		t.Fatal(err)
	}
	opts.Dial = []grpc.DialOption{grpc.WithStreamInterceptor(between)}
	h, err := host.New(opts, lsppool.Module, sandboxsupervisor.Module)
	if err != nil {
		t.Fatal(err)
	}
	p := &pool{t: t, root: t.TempDir(), opts: opts}
	p.start(h)
	t.Cleanup(func() { testkit.Stop(t, p.running) })
	path := p.write("a.fake", "def one\none two\n")
	for range 2 {
		res, err := p.ask(lsppoolv1.Action_ACTION_DEFINITION, path, func(q *lsppoolv1.QueryRequest) { q.Line = 1 })
		if err != nil || len(res.GetLocations()) != 1 {
			t.Fatalf("got %v, %v", res, err)
		}
		kill(t, p.only().GetPid())
	}
	if s := p.only(); s.GetRestartCount() != 1 {
		t.Errorf("restarts: %d, want 1", s.GetRestartCount())
	}
}

// traffic counts the messages of programs that pass through streams of the supervisor.
type traffic struct {
	// elsewhere makes tickets useless, as those of a supervisor on another machine are.
	elsewhere     bool
	input, output atomic.Int64
}

func (c *traffic) count(
	ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer,
	opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	stream, err := open(ctx, desc, conn, method, opts...)
	return counted{stream, c}, err
}

type counted struct {
	grpc.ClientStream
	traffic *traffic
}

func (c counted) SendMsg(m any) error {
	if r, ok := m.(*sandboxsupervisorv1.ExecRequest); ok && r.GetStdin() != nil {
		c.traffic.input.Add(1)
	}
	return c.ClientStream.SendMsg(m)
}

func (c counted) RecvMsg(m any) error {
	err := c.ClientStream.RecvMsg(m)
	event, ok := m.(*sandboxsupervisorv1.ExecEvent)
	if !ok {
		return err
	}
	if event.GetOutput().GetStream() == sandboxsupervisorv1.Stream_STREAM_STDOUT {
		c.traffic.output.Add(1)
	}
	if c.traffic.elsewhere && event.GetStarted().GetTicket() != "" {
		event.GetStarted().Ticket = "useless"
	}
	return err
}
