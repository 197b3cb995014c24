package rpc_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/mtls"
	"kaged.dev/pkg/rpc"
	"kaged.dev/pkg/testkit/certs"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// flaky refuses every call as unavailable.
type flaky struct {
	toolrunnerv1.UnimplementedToolRunnerServiceServer
	listed, ended atomic.Int64
	bounded       atomic.Bool
}

func (f *flaky) ListTools(ctx context.Context, _ *toolrunnerv1.ListToolsRequest) (*toolrunnerv1.ListToolsResponse,
	error,
) {
	_, bounded := ctx.Deadline()
	f.bounded.Store(bounded)
	f.listed.Add(1)
	return nil, fault.New(fault.Unavailable, "Not now.")
}

func (f *flaky) EndSession(context.Context, *toolrunnerv1.EndSessionRequest) (*toolrunnerv1.EndSessionResponse, error) {
	f.ended.Add(1)
	return nil, fault.New(fault.Unavailable, "Not now.")
}

// Between hosts a read is retried and a change is not; a dead service gets at most a tenth more calls; every unary call
// has a deadline.
func TestRetryBudget(t *testing.T) {
	t.Parallel()
	ca, log, f := certs.New(t), slog.New(slog.DiscardHandler), &flaky{}
	load := func(service string) *mtls.Material {
		m, err := mtls.Load(ca.Issue(service), log)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	server := grpc.NewServer(append(rpc.ServerOptions(log), rpc.Peers{
		TLS: load("tool-runner"),
		Log: log,
	}.ServerOptions()...)...)
	toolrunnerv1.RegisterToolRunnerServiceServer(server, f)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Stop(); <-served })
	dial := func(who string) toolrunnerv1.ToolRunnerServiceClient {
		between := rpc.Between{TLS: load(who), Want: mtls.Identity{Service: "tool-runner"}, CallTimeout: time.Minute}
		conn, err := grpc.NewClient("passthrough:///"+listener.Addr().String(), between.DialOptions()...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return toolrunnerv1.NewToolRunnerServiceClient(conn)
	}
	if _, err := dial("session-manager").EndSession(t.Context(), &toolrunnerv1.EndSessionRequest{}); !errors.Is(err,
		fault.Unavailable) || f.ended.Load() != 1 {
		t.Errorf("a change: got %v after %d tries, want unavailable after 1", err, f.ended.Load())
	}
	harness := dial("harness")
	const calls = 100
	for i := range calls {
		if _, err := harness.ListTools(t.Context(), &toolrunnerv1.ListToolsRequest{}); !errors.Is(err, fault.Unavailable) {
			t.Fatalf("got %v, want unavailable", err)
		}
		if tries := f.listed.Load(); i == 0 && tries != 3 {
			t.Errorf("a read: %d tries, want 3", tries)
		}
	}
	if tries := f.listed.Load(); tries > calls+calls/10 {
		t.Errorf("%d calls of a dead service: %d tries, want at most a tenth more", calls, tries)
	}
	if !f.bounded.Load() {
		t.Error("a call without an end of its own has none")
	}
}

// gRPC accepts the service config: it names replicas, health and the retryable methods, without changing methods.
func TestServiceConfig(t *testing.T) {
	t.Parallel()
	text := rpc.ServiceConfig(true)
	var c map[string]any
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"round_robin", "healthCheckConfig", "ListTools", "GetSession"} {
		if !strings.Contains(text, want) {
			t.Errorf("the service config lacks %s", want)
		}
	}
	for _, never := range []string{
		"PostMessage", "RunTool", "EndSession", "Attach", "AuthenticateToken",
		"ConsumeLaunchToken",
	} {
		if strings.Contains(text, `"`+never+`"`) {
			t.Errorf("the service config retries %s", never)
		}
	}
	if alone := rpc.ServiceConfig(false); strings.Contains(alone, "round_robin") || strings.Contains(alone,
		"healthCheckConfig") {
		t.Errorf("one process is balanced: %s", alone[:80])
	}
}
