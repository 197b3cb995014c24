package toolrunner_test

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"kaged.dev/pkg/rpc"
	toolrunner "kaged.dev/services/tool-runner"

	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// BenchmarkRunTool measures the cost of a call besides its tool, both ends of the socket included: an edit of a missing
// file, and an empty call. make bench measures the same between two processes; this benchmark can be profiled.
func BenchmarkRunTool(b *testing.B) {
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	svc, err := toolrunner.New(
		toolrunner.DefaultConfig(),
		toolrunner.Deps{Log: log, Sandbox: sandboxsupervisorv1.NewSandboxServiceClient(nil)},
	)
	if err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(b.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		b.Fatal(err)
	}
	srv := grpc.NewServer(rpc.ServerOptions(log)...)
	svc.Register(srv)
	grpc_health_v1.RegisterHealthServer(srv, health.NewServer())
	go func() { _ = srv.Serve(listener) }()
	b.Cleanup(srv.Stop)
	conn, err := grpc.NewClient("unix:"+path, rpc.DialOptions()...)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	client := toolrunnerv1.NewToolRunnerServiceClient(conn)
	root := b.TempDir()
	b.Run("ping", func(b *testing.B) {
		for b.Loop() {
			if _, err := grpc_health_v1.NewHealthClient(conn).
				Check(b.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("call", func(b *testing.B) {
		const input = `{"path":"src/none.txt","old_string":"a","new_string":"b"}`
		b.ReportAllocs()
		n := 0
		for b.Loop() {
			n++
			stream, err := client.RunTool(b.Context(), &toolrunnerv1.RunToolRequest{
				CallId: strconv.Itoa(n), Tool: "edit.text", Input: input, Context: &toolrunnerv1.ToolContext{
					SessionId: "s", RunId: "r", RequestId: "q", Caller: "primary", ProjectRoot: root, ProjectId: "p",
					Tools: []string{"edit.text"},
				},
			})
			if err != nil {
				b.Fatal(err)
			}
			for {
				if _, err := stream.Recv(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}
