package toolrunner_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/test/bufconn"

	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/rpc"
	toolrunner "kaged.dev/services/tool-runner"

	issuev1 "kaged.dev/proto/gen/kaged/issue/v1"
	lsppoolv1 "kaged.dev/proto/gen/kaged/lsppool/v1"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// dial serves the services that register adds in memory and returns a connection to them.
func dial(t *testing.T, register func(grpc.ServiceRegistrar)) grpc.ClientConnInterface {
	t.Helper()
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	listener := bufconn.Listen(1 << 20)
	srv := grpc.NewServer(rpc.ServerOptions(log)...)
	register(srv)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = srv.Serve(listener)
	}()
	conn, err := grpc.NewClient("passthrough:memory", append(rpc.DialOptions(),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn,
			error,
		) {
			return listener.DialContext(ctx)
		}),
		// On a busy machine a handshake takes longer than the second after which clients try again.
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: time.Minute}))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		srv.Stop()
		<-served
	})
	return conn
}

// client is a tool runner from its callers' side, with a project.
type client struct {
	toolrunnerv1.ToolRunnerServiceClient
	t    *testing.T
	root string
	// drain drains the service.
	drain func(context.Context)
}

// start runs the service in memory. sandbox runs its commands.
func start(t *testing.T, sandbox sandboxsupervisorv1.SandboxServiceServer) *client {
	t.Helper()
	below := dial(t, func(r grpc.ServiceRegistrar) { sandboxsupervisorv1.RegisterSandboxServiceServer(r, sandbox) })
	issues := dial(t, func(r grpc.ServiceRegistrar) {
		issuev1.RegisterIssueToolServiceServer(r, issuev1.UnimplementedIssueToolServiceServer{})
	})
	c, stop := startOn(t, toolrunner.DefaultConfig(), toolrunner.Deps{
		Sandbox: sandboxsupervisorv1.NewSandboxServiceClient(below), Issues: issuev1.NewIssueToolServiceClient(issues),
	})
	t.Cleanup(stop)
	return c
}

// startOn runs a service with its dependencies except the log until stop is called. Without LSP in deps there are no
// language servers.
func startOn(t *testing.T, cfg toolrunner.Config, deps toolrunner.Deps) (_ *client, stop func()) {
	t.Helper()
	deps.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	if deps.LSP == nil { // after the write of a file the tool runner requests its new errors
		deps.LSP = lsppoolv1.NewLSPPoolServiceClient(dial(t, func(r grpc.ServiceRegistrar) {
			lsppoolv1.RegisterLSPPoolServiceServer(r, lsppoolv1.UnimplementedLSPPoolServiceServer{})
		}))
	}
	svc, err := toolrunner.New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	if err := svc.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- svc.Run(ctx) }()
	conn := dial(t, svc.Register)
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &client{toolrunnerv1.NewToolRunnerServiceClient(conn), t, root, svc.Drain}, stop
}

// write writes a file of the project.
func (c *client) write(name, content string) {
	c.t.Helper()
	path := filepath.Join(c.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		c.t.Fatal(err)
	}
}

// request returns a call of a tool by the root agent, which has all tools of the catalogue.
func (c *client) request(name, input string) *toolrunnerv1.RunToolRequest {
	c.t.Helper()
	list, err := c.ListTools(c.t.Context(), &toolrunnerv1.ListToolsRequest{})
	if err != nil {
		c.t.Fatal(err)
	}
	var names []string
	for _, tool := range list.GetTools() {
		names = append(names, tool.GetName())
	}
	return &toolrunnerv1.RunToolRequest{CallId: ident.New(), Tool: name, Input: input, Context: &toolrunnerv1.ToolContext{
		SessionId: "s1", RunId: "r1", RequestId: "q1", Caller: "primary", ProjectId: "p1", ProjectRoot: c.root, Tools: names,
	}}
}

// run runs a call and returns the streamed output and the result.
func (c *client) run(req *toolrunnerv1.RunToolRequest) (string, *toolrunnerv1.ToolResult, error) {
	c.t.Helper()
	stream, err := c.RunTool(c.t.Context(), req)
	if err != nil {
		return "", nil, err
	}
	var output strings.Builder
	for {
		event, err := stream.Recv()
		if err != nil {
			return output.String(), nil, err
		}
		if result := event.GetResult(); result != nil {
			if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
				c.t.Errorf("after the result came %v", err)
			}
			return output.String(), result, nil
		}
		output.WriteString(event.GetOutput().GetText())
	}
}

// call runs a tool and decodes its content.
func (c *client) call(name, input string) (map[string]any, *toolrunnerv1.ToolResult) {
	c.t.Helper()
	_, result, err := c.run(c.request(name, input))
	if err != nil {
		c.t.Fatalf("%s %s: %v", name, input, err)
	}
	var content map[string]any
	if err := json.Unmarshal([]byte(result.GetContent()), &content); err != nil {
		c.t.Fatalf("%s answered %q: %v", name, result.GetContent(), err)
	}
	return content, result
}
