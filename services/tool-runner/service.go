package toolrunner

import (
	"context"
	"log/slog"
	"net/http"
	"os"

	"google.golang.org/grpc"

	"kaged.dev/pkg/ownpath"
	"kaged.dev/services/tool-runner/internal/adapter/sandbox"
	"kaged.dev/services/tool-runner/internal/core"
	"kaged.dev/services/tool-runner/internal/core/syntax"
	"kaged.dev/services/tool-runner/internal/server"

	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// Deps are the service's collaborators.
type Deps struct {
	Log     *slog.Logger
	Sandbox sandboxsupervisorv1.SandboxServiceClient
	// Journal is the folder where changes of files are noted while they are made; empty for none, as in a test.
	Journal string
	// Processes is the folder of the tables of background processes; empty for memory.
	Processes string
	// Tools declares the operator's commands.
	Tools ToolsFile
	// Forbidden are the places of kaged's own, which no cage may see.
	Forbidden []ownpath.Path
	// Memory is the folder in which it is remembered where repositories were found in projects, empty for none. The sandbox
	// supervisor of the same data directory has the same.
	Memory string
	// NoSandbox says that cages are switched off on this daemon.
	NoSandbox bool
}

// Service is the tool runner.
type Service struct {
	runner *core.Runner
	server *server.Server
}

// New builds the service; nothing runs and nothing is dialled before Run.
func New(cfg Config, deps Deps) (*Service, error) {
	opts := cfg.options()
	opts.Journal, opts.Processes.Dir = deps.Journal, deps.Processes
	opts.Dispatch.Forbidden, opts.Dispatch.Memory = deps.Forbidden, deps.Memory
	box := sandbox.New(deps.Sandbox)
	runner, err := core.New(opts, core.Deps{
		Log: deps.Log, Sniff: http.DetectContentType, Commands: box, Background: box, Cages: box, Inventory: box, NoSandbox: deps.NoSandbox,
		Languages: syntax.Languages(), LookupEnv: os.LookupEnv,
		ToolsFile: deps.Tools.Path, Tools: deps.Tools.Content,
	})
	if err != nil {
		return nil, err
	}
	return &Service{runner: runner, server: server.New(runner)}, nil
}

// Register adds the service to a gRPC server.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	toolrunnerv1.RegisterToolRunnerServiceServer(r, s.server)
}

// Run waits for the end of ctx, then ends every call that still runs.
func (s *Service) Run(ctx context.Context) error {
	<-ctx.Done()
	s.runner.Stop()
	return nil
}
