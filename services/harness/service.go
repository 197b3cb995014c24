package harness

import (
	"context"
	"log/slog"
	"net/http"

	"google.golang.org/grpc"

	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/wire"
	"kaged.dev/pkg/telemetry"
	"kaged.dev/services/harness/internal/adapter/models"
	"kaged.dev/services/harness/internal/adapter/toolrunner"
	"kaged.dev/services/harness/internal/adapter/watch"
	"kaged.dev/services/harness/internal/core/loop"
	"kaged.dev/services/harness/internal/server"

	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// Deps are the service's dependencies.
type Deps struct {
	Log *slog.Logger
	// ToolRunner returns the tool runner of a workspace. The empty name stands for the only workspace.
	ToolRunner func(workspace string) (toolrunnerv1.ToolRunnerServiceClient, error)
	// Telemetry makes the process's traces and metrics. It may be nil.
	Telemetry *telemetry.Kit
	// Hooks are called, in this order, at compactions and at the beginning of sessions. It may be empty.
	Hooks []loop.Hook
	// CagesOnly refuses agents without a cage.
	CagesOnly bool
}

// Service is the harness.
type Service struct {
	server     *server.Server
	client     *http.Client
	workspaces *toolrunner.Workspaces
}

// New returns the service. It starts no goroutine and dials no peer; Run does.
func New(cfg Config, deps Deps) (*Service, error) {
	client := wire.NewClient(cfg.ConnectTimeout.D())
	workspaces := toolrunner.New(deps.ToolRunner, cfg.CatalogueTTL.D())
	srv := server.New(server.Deps{
		Log: deps.Log, Workspaces: workspaces,
		Models: drivers(cfg, client), Prices: models.Prices{}, Watch: watch.New(deps.Telemetry, deps.Log),
		MaxHistoryBytes: cfg.MaxHistoryBytes,
		Limits:          cfg.limits(), Memories: llm.NewMemories(cfg.EncodedBytes), Hooks: deps.Hooks, CagesOnly: deps.CagesOnly,
		Keep: server.KeepLimits{Sessions: cfg.KeptSessions, Bytes: cfg.KeptBytes, For: cfg.KeptFor.D()},
	})
	return &Service{server: srv, client: client, workspaces: workspaces}, nil
}

// Register adds the service to a gRPC server.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	harnessv1.RegisterHarnessServiceServer(r, s.server)
}

// Drain lets each run stop at its next step boundary.
func (s *Service) Drain(ctx context.Context) { s.server.Drain(ctx) }

// Run waits for the end of ctx, then ends every active run.
func (s *Service) Run(ctx context.Context) error {
	<-ctx.Done()
	s.server.Stop()
	s.workspaces.Close()
	s.client.CloseIdleConnections()
	return nil
}
