package lsppool

import (
	"context"
	"log/slog"

	"google.golang.org/grpc"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/late"
	"kaged.dev/pkg/sandbox/env"
	"kaged.dev/services/lsp-pool/internal/adapter/sandbox"
	"kaged.dev/services/lsp-pool/internal/adapter/watch"
	"kaged.dev/services/lsp-pool/internal/core"
	"kaged.dev/services/lsp-pool/internal/server"

	lsppoolv1 "kaged.dev/proto/gen/kaged/lsppool/v1"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

// Deps are the service's dependencies.
type Deps struct {
	Log     *slog.Logger
	Sandbox sandboxsupervisorv1.SandboxServiceClient
	// Servers are the operator's tables [lsp.servers.LANG].
	Servers map[string]config.LSPServer
	// LookupEnv reads kaged's environment.
	LookupEnv func(string) (string, bool)
	// NoSandbox is true if cages are switched off in this daemon.
	NoSandbox bool
	// Records is the file of the audit records that tool-runner has not stored yet; empty for memory only.
	Records string
}

// Service is the pool of language servers.
type Service struct {
	records *late.Log
	pool    *core.Pool
	server  *server.Server
}

// New builds the service; no goroutine and no program starts.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	overrides := map[string]core.Override{}
	for lang, s := range deps.Servers {
		overrides[lang] = core.Override{
			Command: s.Command, Extensions: s.Extensions, Settings: s.Settings, Env: s.Env, Read: s.Read, Memory: s.Memory,
		}
	}
	records := late.New(deps.Records, deps.Log)
	pool := core.New(core.Options{
		Records: records,
		Entries: core.With(core.Builtin(), overrides), Idle: cfg.Idle.D(), Restarts: cfg.Restarts,
		StartTimeout: cfg.StartTimeout.D(),
		QueryTimeout: cfg.QueryTimeout.D(), StopGrace: cfg.StopGrace.D(), Wait: cfg.Wait.D(), Quiet: cfg.Quiet.D(),
		Parallel: cfg.Parallel,
		Servers:  cfg.MaxServers, MessageBytes: cfg.MessageBytes, DocumentBytes: cfg.DocumentBytes, Documents: cfg.Documents,
		LookupEnv: deps.LookupEnv, Caging: core.Caging(cfg.Cage),
		Environment: func(caged bool, declared map[string]string) map[string]string {
			if caged && !deps.NoSandbox {
				return env.Caged(deps.LookupEnv, declared)
			}
			return env.Build(deps.LookupEnv, declared)
		},
	}, sandbox.New(deps.Sandbox, deps.Log), func(root string) core.Tree { return watch.New(root, deps.Log) }, deps.Log)
	return &Service{records: records, pool: pool, server: server.New(pool)}, nil
}

// Register adds the service to a gRPC server.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	lsppoolv1.RegisterLSPPoolServiceServer(r, s.server)
}

// Start implements host.Starter. It reads the records of an earlier process.
func (s *Service) Start(context.Context) error {
	s.records.Load()
	return nil
}

// Drain implements host.Drainer: the streams that hold servers end, and the servers. The watches of records end after
// the records of that. Queries are answered.
func (s *Service) Drain(ctx context.Context) { s.pool.Drain(ctx) }

// Run stops idle servers until ctx ends, then all servers, and returns when they have ended.
func (s *Service) Run(ctx context.Context) error { return s.pool.Run(ctx) }
