package lsppool_test

import (
	"context"
	"fmt"
	"os"
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

// A pool that cannot take the pipes of its servers, because the supervisor's socket is not on its machine, gets its
// answers through the stream, and notices a crash there.
func TestRelayed(t *testing.T) {
	t.Parallel()
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
	opts.Dial = []grpc.DialOption{grpc.WithStreamInterceptor(elsewhere)}
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

// elsewhere makes tickets useless, as those of a supervisor on another machine are.
func elsewhere(
	ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer,
	opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	stream, err := open(ctx, desc, conn, method, opts...)
	return distant{stream}, err
}

type distant struct{ grpc.ClientStream }

func (d distant) RecvMsg(m any) error {
	err := d.ClientStream.RecvMsg(m)
	if event, ok := m.(*sandboxsupervisorv1.ExecEvent); ok && event.GetStarted().GetTicket() != "" {
		event.GetStarted().Ticket = "useless"
	}
	return err
}
