package sandboxsupervisor

import (
	"context"
	"log/slog"
	"net"
	"sync"

	"google.golang.org/grpc"

	"kaged.dev/pkg/cage"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/handover"
	"kaged.dev/pkg/ownpath"
	"kaged.dev/pkg/telemetry"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
	"kaged.dev/services/sandbox-supervisor/internal/core"
	"kaged.dev/services/sandbox-supervisor/internal/server"
)

// Deps are the service's dependencies.
type Deps struct {
	// Log is its log.
	Log *slog.Logger
	// Node identifies the data directory, Instance this start of the process: commands are marked with both, so that
	// the next start finds those of a killed service.
	Node, Instance string
	// Lock is the file that says that a supervisor of this node is at work; empty where the node has one instance only.
	Lock string
	// DataDir is the folder for persistent state and for the journals of cages; empty for no state.
	DataDir ownpath.Path
	// Socket is the path of the unix socket at which callers of other processes take shared files; "" for none. It is in
	// a folder that this process alone serves.
	Socket string
	// Lazy starts the shim with the first command, instead of at once.
	Lazy bool
	// Forbidden are the places of kaged's own, which no cage may see.
	Forbidden []ownpath.Path
	// NoSandbox lets commands that ask for a cage run without one.
	NoSandbox bool
	// TryCage makes a cage at the start and logs the missing permissions if that fails.
	TryCage bool
	// Telemetry are the process's traces and metrics. It may be nil.
	Telemetry *telemetry.Kit
}

// spawner is a core.Spawner with a life of its own.
type spawner interface {
	core.Spawner
	// Run works until ctx ends and returns when every process is gone.
	Run(ctx context.Context) error
	// Ready fails while no process can be started.
	Ready(ctx context.Context) error
}

// boxes are core.Boxes with resources of their own.
type boxes interface {
	core.Boxes
	// Sweep removes the traces of killed supervisors.
	Sweep()
	// Close lets go of it; no box is left then.
	Close()
}

// Service is the sandbox supervisor.
type Service struct {
	log        *slog.Logger
	tryCage    bool
	spawner    spawner
	boxes      boxes // nil on machines without cages
	supervisor *core.Supervisor
	socket     string
	handing    net.Listener // nil without a socket
	handed     sync.WaitGroup
}

// New returns a service that has not started any process.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	processes, boxes := newSpawner(cfg, deps), newBoxes(cfg, deps)
	cages := core.Cages{Compile: compiler(deps)}
	//lint:ignore SA4023 where there is no Linux it is nil
	if boxes != nil {
		cages.Boxes = boxes
	}
	s := &Service{
		log: deps.Log, tryCage: deps.TryCage, spawner: processes, boxes: boxes, socket: deps.Socket,
		supervisor: core.New(processes, cages, core.Limits{
			KillGrace: cfg.KillGrace.D(), CancelGrace: cfg.CancelGrace.D(), MaxCommands: cfg.MaxCommands, MaxCages: cfg.MaxCages,
			MaxBytes: cfg.MaxCommandBytes, MaxStrings: cfg.MaxCommandStrings, InputBytes: cfg.StdinBytes,
			NoSandbox:  deps.NoSandbox,
			KeptOutput: cfg.KeptOutputBytes, MaxDetached: cfg.SessionProcesses, EndedPerOwner: cfg.EndedProcesses,
			EndedBytes: cfg.EndedBytes, EndedFor: cfg.EndedFor.D(),
		}),
	}
	deps.Telemetry.Observe(telemetry.Cages, func() float64 { return float64(s.supervisor.CountCages()) })
	return s, nil
}

// Register adds the service's RPCs to a server.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	sandboxsupervisorv1.RegisterSandboxServiceServer(r, server.New(s.supervisor, s.socket))
}

// Start implements host.Starter. It opens the socket of shared files. Without it the pipes of a command of another
// process are relayed.
func (s *Service) Start(context.Context) error {
	if s.socket == "" {
		return nil
	}
	l, err := handover.Listen(s.socket)
	if err != nil {
		s.log.Warn("pipes are relayed, because their socket cannot be opened", "socket", s.socket, "error", err)
		return nil
	}
	s.handing = l
	s.handed.Go(func() { handover.Serve(l) })
	return nil
}

// Run works until ctx ends and returns when every command and every goroutine is gone.
func (s *Service) Run(ctx context.Context) error {
	// The spawner outlives ctx: commands are ended through it.
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	if s.handing != nil {
		defer s.handed.Wait()
		defer s.handing.Close()
	}
	if s.boxes != nil {
		defer s.boxes.Close()
		s.boxes.Sweep()
		if s.tryCage {
			var trying sync.WaitGroup
			trying.Go(func() { s.logCages(ctx) })
			defer trying.Wait()
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- s.spawner.Run(work) }()
	select {
	case <-ctx.Done():
	case err := <-ended:
		return err
	}
	s.supervisor.Close()
	stop()
	return <-ended
}

// logCages logs whether cages can be made, and the missing parts if not.
func (s *Service) logCages(ctx context.Context) {
	if report := s.boxes.Probe(ctx); report.Tier == "" {
		s.log.Error("agents cannot be caged", "reason", report.Unavailable)
	} else {
		s.log.Info("agents can be caged", "by", report.Tier)
	}
}

// Drain ends every command, so that their callers learn of it before the streams are cut.
func (s *Service) Drain(ctx context.Context) {
	if err := s.supervisor.Drain(ctx); err != nil {
		s.log.Warn("commands are still ending", "error", err)
	}
}

// Ready fails while no command can be started.
func (s *Service) Ready(ctx context.Context) error { return s.spawner.Ready(ctx) }

// compiler returns the function that compiles policies, without the daemon's own parts.
func compiler(deps Deps) func(*dsl.Cage, string) (*cage.View, error) {
	options := []cage.Option{cage.Forbidden(deps.Forbidden...), cage.Sockets()}
	if !deps.DataDir.IsZero() {
		options = append(options, cage.Remember(cage.NewMemory(deps.DataDir.Join("repositories"))))
	}
	return func(policy *dsl.Cage, root string) (*cage.View, error) { return cage.Compile(policy, root, options...) }
}
