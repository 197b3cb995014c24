package sessionmanager

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fullstorydev/grpchan"
	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/grpc"

	"kaged.dev/pkg/bus"
	"kaged.dev/pkg/config"
	"kaged.dev/pkg/postgres"
	"kaged.dev/pkg/postgres/database"
	"kaged.dev/pkg/rpc"
	"kaged.dev/pkg/telemetry"
	"kaged.dev/services/session-manager/internal/adapter/toolrunner"
	"kaged.dev/services/session-manager/internal/audit"
	"kaged.dev/services/session-manager/internal/database/migrations"
	"kaged.dev/services/session-manager/internal/logs"
	"kaged.dev/services/session-manager/internal/operators"
	"kaged.dev/services/session-manager/internal/operators/core/doctor"
	"kaged.dev/services/session-manager/internal/projects"
	projectscore "kaged.dev/services/session-manager/internal/projects/core/projects"
	"kaged.dev/services/session-manager/internal/sagas/core/unregister"
	sagasstore "kaged.dev/services/session-manager/internal/sagas/store"
	"kaged.dev/services/session-manager/internal/sessions"
	"kaged.dev/services/session-manager/internal/sessions/core/idle"
	"kaged.dev/services/session-manager/internal/sessions/core/lease"
	"kaged.dev/services/session-manager/internal/sessions/core/notices"
)

// Deps are the dependencies of a [Service]. Every field is required unless it says otherwise.
type Deps struct {
	Log     *slog.Logger
	Version string
	// Build is the version with its commit, if that is known. Snapshots of another build are compiled again.
	Build string
	// NoSandbox says that cages are switched off in this process.
	NoSandbox bool
	// Self is this process as a lease holder.
	Self lease.Holder
	// DatabaseURL connects as the owner of the schema; if it is empty, another process migrates the schema. AppURL
	// connects as the services' role; if it is empty, DatabaseURL is used and switches to that role.
	DatabaseURL, AppURL string
	// Sparing opens the last connection to the database only beside slow statements, and ends all but one that are not
	// used for some time.
	Sparing        bool
	NATS           bus.Config
	Harness, Issue grpc.ClientConnInterface
	// System is the configuration of a shared deployment, Workspaces are the names of its workspaces; both may be
	// empty.
	System     config.System
	Workspaces []string
	// ToolRunner connects to the tool-runner of a workspace; the empty name is the default workspace.
	ToolRunner func(workspace string) (grpc.ClientConnInterface, error)
	// DialAddress connects to the session-manager at the address of a lease.
	DialAddress func(address string) (grpc.ClientConnInterface, error)
	// LocalConfig is the path of local.toml; "" means an empty configuration.
	LocalConfig string
	// Telemetry is the process's traces and metrics. It may be nil.
	Telemetry *telemetry.Kit
	// IdleHooks are called when a session has been idle for some time. It may be nil.
	IdleHooks []idle.Hook
}

// Service is session-manager. [New] builds its contexts, which refuse calls until [Service.Run] has opened the
// database.
type Service struct {
	cfg    Config
	deps   Deps
	pool   *database.Pool
	health *postgres.Health
	// ready is set while the database is open and prepared.
	ready atomic.Bool

	audit      *audit.Audit
	logs       *logs.Logs
	operators  *operators.Operators
	projects   *projects.Projects
	sessions   *sessions.Sessions
	unregister *unregister.Saga
}

// New returns a Service. It starts no goroutine.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Service{
		cfg: cfg, deps: deps, pool: new(database.Pool),
		health: postgres.NewHealth(deps.Log, cfg.DatabaseStall.D(), sessions.ProbeWrite),
	}
	places := operators.NewWorkspaces(s.pool, deps.Issue, deps.System.Enabled, deps.Workspaces)
	workspaces := toolrunner.New(deps.ToolRunner, places.Check)
	s.audit = audit.New(s.pool, deps.Log, deps.System.Enabled)
	s.logs = logs.New(cfg.Logs, s.pool, s, deps.Log)
	deps.Log = s.logs.Tee(deps.Log)
	s.operators = operators.New(cfg.Operators, operators.Deps{
		DB: s.pool, Log: deps.Log, LocalConfig: deps.LocalConfig, Version: deps.Version, Workspace: workspaces,
		Places: places, Parts: s.parts(), Records: s.audit.Records(), Volume: workspaces, Root: deps.System.Root(),
	})
	s.projects = projects.New(cfg.Projects, projects.Deps{
		DB: s.pool, Log: deps.Log, Local: s.operators.Local, Build: deps.Build,
		Workspace: workspaces, Places: places, Root: deps.System.Root(),
		Changed: func(owner, id string, state projectscore.State) {
			s.sessions.Notices.Tell(owner, notices.Project{ID: id, State: string(state)})
		},
		Audited: s.logs.Teller.Audited,
	})
	s.sessions = sessions.New(cfg.Sessions, sessions.Deps{
		DB: s.pool, Log: deps.Log, Local: s.operators.Local, Projects: s.projects.Registry, Tools: workspaces,
		Harness: deps.Harness, Issue: deps.Issue, NATS: deps.NATS, Self: deps.Self, Dial: deps.DialAddress,
		NoSandbox: deps.NoSandbox, Logs: s.logs.Teller, Workspaces: places.All(), CheckStart: places.CheckStart,
		Draining: places.Draining(), WorkspaceWait: workspaceWait(deps.System),
		Telemetry: deps.Telemetry, IdleHooks: deps.IdleHooks,
	})
	s.unregister = unregister.New(s.projects.Registry, s.sessions.Service, sagasstore.New(s.pool), workspaces,
		func(owner, id string) { s.sessions.Notices.Tell(owner, notices.Removed{ID: id}) })
	return s, nil
}

// workspaceWait returns the maximum time that runs wait for a drained workspace, 0 in a deployment for one
// operator.
func workspaceWait(s config.System) time.Duration {
	if !s.Enabled {
		return 0
	}
	return cmp.Or(s.WorkspaceWait, config.DefaultWorkspaceWait).D()
}

// Register implements host.Service.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	r = grpchan.WithUnaryInterceptors(r, s.readyUnary, rpc.RequireOperator, s.admitUnary)
	r = grpchan.WithStreamInterceptors(r, s.readyStream, rpc.RequireOperatorStream, s.admitStream)
	s.audit.Register(r)
	s.operators.Register(r)
	s.projects.Register(r, s.unregister)
	s.sessions.Register(r)
	s.logs.Register(r, func(ctx context.Context, owner, project string) error {
		_, err := s.projects.Registry.Find(ctx, owner, project)
		return err
	})
}

// Notify sends messages on a NATS subject to its present subscribers. It fails with unavailable.
func (s *Service) Notify(ctx context.Context, subject string, messages ...[]byte) error {
	return s.sessions.Notify(ctx, subject, messages...)
}

// reflection is the prefix of the reflection methods, which are logged but not audited.
const reflection = "/grpc.reflection."

// DebugCalled implements host.DebugAuditor: a call that cannot be audited is not made.
func (s *Service) DebugCalled(ctx context.Context, c rpc.DebugCall) error {
	if strings.HasPrefix(c.Method, reflection) {
		return nil
	}
	if !s.ready.Load() {
		return database.NotOpen()
	}
	return s.audit.Debugged(ctx, c)
}

// Ready fails while the service cannot work: before the database is open, and while the database does not answer or
// refuses writes. Without NATS the service works; only the frames wait.
func (s *Service) Ready(ctx context.Context) error {
	if !s.ready.Load() {
		return database.NotOpen()
	}
	pool, err := s.pool.Get()
	if err != nil {
		return err
	}
	if err := s.health.Err(); err != nil {
		return err
	}
	return postgres.Ping(ctx, pool)
}

// parts returns the doctor's checks other than those of the workspace.
func (s *Service) parts() []doctor.Part {
	return []doctor.Part{
		{Name: "PostgreSQL", Check: func(ctx context.Context) (string, error) { return "answers", s.Ready(ctx) }},
		{Name: "NATS", Check: func(context.Context) (string, error) { return "connected", s.sessions.Streaming() }},
	}
}

// Drain implements host.Drainer: runs are handed over at their next safe point or ended, and sockets are told.
func (s *Service) Drain(ctx context.Context) {
	if s.ready.Load() {
		s.sessions.Drain(ctx)
	}
}

// Run implements host.Service. It waits for an unreachable database. It fails if the schema cannot be used, such as
// one of a newer version, or a context cannot be prepared.
func (s *Service) Run(ctx context.Context) error {
	pool, err := s.openPool(ctx)
	if pool == nil {
		return err
	}
	defer postgres.Close(pool, s.cfg.DatabaseStall.D())
	if s.deps.Sparing {
		s.pool.OpenSparing(pool)
	} else {
		s.pool.Open(pool)
	}
	defer s.pool.Close()
	// The stream ends after the sessions, because they publish last frames.
	var work sync.WaitGroup
	streaming, stopStreaming := context.WithCancel(context.WithoutCancel(ctx))
	work.Go(func() { s.sessions.Stream(streaming) })
	defer work.Wait()
	defer stopStreaming()

	if err := s.boot(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	work.Go(func() { s.audit.Run(streaming) })
	logging, stopLogging := context.WithCancel(streaming)
	var logged sync.WaitGroup
	logged.Go(func() { s.logs.Run(logging) })
	work.Go(func() { s.health.Watch(streaming, pool) })
	s.ready.Store(true)
	defer s.ready.Store(false)
	s.sessions.Run(ctx)
	stopLogging()
	logged.Wait() // while NATS is connected
	return nil
}

// openPool opens the database, waiting for an unreachable one. It returns nil without an error if ctx ends first.
func (s *Service) openPool(ctx context.Context) (*pgxpool.Pool, error) {
	return postgres.Await(ctx, s.database(), migrations.Files, migrations.Schema)
}

func (s *Service) database() postgres.Config {
	cfg := postgres.Config{
		OwnerURL: s.deps.DatabaseURL, URL: s.deps.AppURL, MaxConns: int32(s.cfg.DatabaseConns), Log: s.deps.Log,
		Health: s.health,
	}
	if s.deps.Sparing {
		cfg.Idle, cfg.Keep = sparingIdle, 1
	}
	return cfg
}

// boot prepares the contexts for the first request.
func (s *Service) boot(ctx context.Context) error {
	if err := postgres.Retry(ctx, s.deps.Log, func() error { return s.audit.Boot(ctx) }); err != nil {
		return err
	}
	return postgres.Retry(ctx, s.deps.Log, func() error { return s.operators.Boot(ctx) })
}
