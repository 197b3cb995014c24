package toolrunner_test

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc"

	"kaged.dev/pkg/fault"
	toolrunner "kaged.dev/services/tool-runner"

	lsppoolv1 "kaged.dev/proto/gen/kaged/lsppool/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// stops is a pool that records the requested stops.
type stops struct {
	lsppoolv1.UnimplementedLSPPoolServiceServer
	asked chan *lsppoolv1.StopServersRequest
}

func (s *stops) StopServers(
	_ context.Context, req *lsppoolv1.StopServersRequest,
) (*lsppoolv1.StopServersResponse, error) {
	s.asked <- req
	return &lsppoolv1.StopServersResponse{}, nil
}

// Language servers end with the last process that runs agents. They continue if another such process still runs.
func TestLanguageServersEndWithTheLastHarness(t *testing.T) {
	t.Parallel()
	pool := &stops{asked: make(chan *lsppoolv1.StopServersRequest, 10)}
	below := dial(t, func(r grpc.ServiceRegistrar) { lsppoolv1.RegisterLSPPoolServiceServer(r, pool) })
	c, stop := startOn(t, toolrunner.DefaultConfig(), toolrunner.Deps{LSP: lsppoolv1.NewLSPPoolServiceClient(below)})
	defer stop()
	hold := func() (leave func()) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		stream, err := c.HoldWorkspace(ctx, &toolrunnerv1.HoldWorkspaceRequest{})
		if err == nil {
			_, err = stream.Recv()
		}
		if err != nil {
			t.Fatal(err)
		}
		return func() {
			cancel()
			_, _ = stream.Recv()
		}
	}
	first, second := hold(), hold()
	first()
	second()
	if got := (<-pool.asked).GetReason(); got != lsppoolv1.StopReason_STOP_REASON_DAEMON_SHUTDOWN || len(pool.asked) != 0 {
		t.Errorf("the pool was asked to stop for %v, and %d times more", got, len(pool.asked))
	}
	unload := &toolrunnerv1.StopLanguageServersRequest{ProjectId: "p1", Root: "/music", Unload: true}
	if _, err := c.StopLanguageServers(t.Context(), unload); err != nil {
		t.Fatal(err)
	}
	if got := <-pool.asked; got.GetReason() != lsppoolv1.StopReason_STOP_REASON_PROJECT_UNLOAD ||
		got.GetProjectId() != "p1" || got.GetRoot() != "/music" {
		t.Errorf("the pool was asked for %v", got)
	}
	unload.Root = ""
	if _, err := c.StopLanguageServers(t.Context(), unload); !errors.Is(fault.From(err), fault.BadRequest) {
		t.Errorf("an unload without a folder: %v", err)
	}
}
