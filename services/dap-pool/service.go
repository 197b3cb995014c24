package dappool

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"google.golang.org/grpc"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/services/dap-pool/internal/adapter/sandbox"
	"kaged.dev/services/dap-pool/internal/core"
	"kaged.dev/services/dap-pool/internal/server"

	dappoolv1 "kaged.dev/proto/gen/kaged/dappool/v1"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

// Deps are the service's dependencies.
type Deps struct {
	Log     *slog.Logger
	Sandbox sandboxsupervisorv1.SandboxServiceClient
	// Adapters are the operator's debug adapters, by runtime.
	Adapters map[string]config.DAPAdapter
	// NoSandbox is true if cages are switched off in this daemon.
	NoSandbox bool
}

// Service is the pool of debug sessions.
type Service struct {
	pool   *core.Pool
	server *server.Server
}

// New builds the service; no goroutine and no program starts.
func New(cfg Config, deps Deps) (*Service, error) {
	adapters := core.Builtin()
	for _, runtime := range slices.Sorted(maps.Keys(deps.Adapters)) {
		x := deps.Adapters[runtime]
		if len(x.Command) == 0 || x.Command[0] == "" {
			return nil, fault.New(fault.BadRequest, "dap.adapters.%s.command names no program.", runtime)
		}
		adapters = core.Declared{
			Runtime: runtime, Command: x.Command, Announces: x.Announces, Type: x.Type, Traces: x.Traces, Launch: x.Launch,
			Attach: x.Attach, By: "[dap.adapters." + runtime + "]",
		}.With(adapters)
	}
	return build(cfg, deps, adapters)
}

func build(cfg Config, deps Deps, adapters []*core.Adapter) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	pool := core.New(core.Options{
		Adapters: adapters, PerAgent: cfg.DebugSessions, Sessions: cfg.MaxSessions, StartTimeout: cfg.StartTimeout.D(),
		RequestTimeout: cfg.RequestTimeout.D(), Timeout: cfg.StopTimeout.D(), StopGrace: cfg.StopGrace.D(),
		MessageBytes: cfg.MessageBytes, OutputBytes: cfg.OutputBytes, ShownBytes: cfg.ShownBytes, ValueBytes: cfg.ValueBytes,
		Items: cfg.Items, Breakpoints: cfg.Breakpoints, NoSandbox: deps.NoSandbox,
	}, sandbox.New(deps.Sandbox), func() string { return "dap_" + ident.New() }, deps.Log)
	return &Service{pool: pool, server: server.New(pool)}, nil
}

// Register adds the service to a gRPC server.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	dappoolv1.RegisterDAPPoolServiceServer(r, s.server)
}

// Run waits for the end of ctx, then ends all debug sessions, and returns when they have ended.
func (s *Service) Run(ctx context.Context) error { return s.pool.Run(ctx) }
