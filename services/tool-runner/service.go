package toolrunner

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"sync"

	"google.golang.org/grpc"

	"kaged.dev/pkg/ownpath"
	"kaged.dev/pkg/sandbox/supervisor"
	"kaged.dev/pkg/syntax"
	"kaged.dev/pkg/workspace/change"
	"kaged.dev/services/tool-runner/internal/adapter/dappool"
	issueadapter "kaged.dev/services/tool-runner/internal/adapter/issues"
	"kaged.dev/services/tool-runner/internal/adapter/lsppool"
	"kaged.dev/services/tool-runner/internal/adapter/machine"
	"kaged.dev/services/tool-runner/internal/core"
	"kaged.dev/services/tool-runner/internal/core/tracker"
	"kaged.dev/services/tool-runner/internal/server"

	dappoolv1 "kaged.dev/proto/gen/kaged/dappool/v1"
	issuev1 "kaged.dev/proto/gen/kaged/issue/v1"
	lsppoolv1 "kaged.dev/proto/gen/kaged/lsppool/v1"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// Deps are the service's dependencies.
type Deps struct {
	Log     *slog.Logger
	Sandbox sandboxsupervisorv1.SandboxServiceClient
	LSP     lsppoolv1.LSPPoolServiceClient
	DAP     dappoolv1.DAPPoolServiceClient
	// Issues is the issue service; without it the tools that need it fail.
	Issues issuev1.IssueToolServiceClient
	// Journal is the folder of the journal of file changes; empty for no journal, as in a test.
	Journal string
	// Records is the file of the audit records that session-manager has not stored yet; empty for memory only.
	Records string
	// Images is the folder of the content of files before their first change by a session; empty for no images.
	Images string
	// Processes is the folder of the tables of background processes; if it is empty the tables are in memory only.
	Processes string
	// Tools declares the operator's commands.
	Tools ToolsFile
	// Forbidden are kaged's own paths, which no cage may show.
	Forbidden []ownpath.Path
	// Memory is the folder that stores the paths of repositories in projects; it may be empty. The sandbox supervisor of
	// the same data directory has the same folder.
	Memory string
	// NoSandbox is true if cages are switched off in this daemon.
	NoSandbox bool
	// CagesOnly refuses agents without a cage. ProjectsRoot is the folder that must contain all projects, "" for no
	// restriction.
	CagesOnly    bool
	ProjectsRoot string
}

// Service is the tool runner.
//
// Goroutines: one that holds the language servers and one that receives their records, which end with Run.
type Service struct {
	languages *lsppool.Client
	runner    *core.Runner
	server    *server.Server
}

// New builds the service; it starts no goroutine, dials no peer and touches no file.
func New(cfg Config, deps Deps) (*Service, error) {
	opts := cfg.options()
	opts.Journal, opts.Images, opts.Processes.Dir = deps.Journal, deps.Images, deps.Processes
	opts.Records = deps.Records
	opts.Rules.Within = deps.ProjectsRoot
	opts.Changed = logChanges(deps.Log)
	opts.Dispatch.Forbidden, opts.Dispatch.Memory = deps.Forbidden, deps.Memory
	client := supervisor.New(deps.Sandbox)
	var issues tracker.Tracker
	if deps.Issues != nil {
		issues = issueadapter.New(deps.Issues)
	}
	languages := lsppool.New(deps.LSP)
	runner, err := core.New(opts, core.Deps{
		Log: deps.Log, Sniff: http.DetectContentType, Commands: client, Background: client, Cages: client, Inventory: client,
		Servers: languages, Debuggers: dappool.New(deps.DAP), Tracker: issues, NoSandbox: deps.NoSandbox,
		CagesOnly: deps.CagesOnly,
		Languages: syntax.Languages(), LookupEnv: os.LookupEnv,
		ToolsFile: deps.Tools.Path, Tools: deps.Tools.Content,
	})
	if err != nil {
		return nil, err
	}
	return &Service{
		languages: languages, runner: runner, server: server.New(runner, machine.New(deps.Sandbox, deps.LSP)),
	}, nil
}

// Register adds the service to a gRPC server.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	toolrunnerv1.RegisterToolRunnerServiceServer(r, s.server)
}

// Start implements host.Starter. It undoes unfinished changes of files before the first call.
func (s *Service) Start(ctx context.Context) error { return s.runner.Start(ctx) }

// Drain implements host.Drainer. It has the workspace's runs handed over, and ends streams that hold runs; calls
// continue.
func (s *Service) Drain(ctx context.Context) { s.runner.Drain(ctx) }

// Run holds the language servers and receives their records until ctx ends, and then ends every running call.
func (s *Service) Run(ctx context.Context) error {
	var relay sync.WaitGroup
	relay.Go(func() { s.runner.RelayRecords(ctx, s.languages.Watch) })
	s.languages.Hold(ctx)
	relay.Wait()
	s.runner.Stop()
	return nil
}

// logChanges returns an observer that logs each changed file at level debug.
func logChanges(log *slog.Logger) change.Observer {
	return func(events []change.Event) {
		for _, e := range events {
			log.Debug("file changed", "seq", e.Seq, "path", e.Path, "kind", e.Kind, "from", e.From)
		}
	}
}
