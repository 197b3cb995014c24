// Package sessions puts together the context of sessions: their messages, runs and approvals. It alone knows
// leases, fences and frames.
package sessions

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc"

	"kaged.dev/pkg/bus"
	"kaged.dev/pkg/postgres/database"
	"kaged.dev/pkg/telemetry"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/session-manager/internal/adapter/framejson"
	"kaged.dev/services/session-manager/internal/adapter/harness"
	"kaged.dev/services/session-manager/internal/adapter/issues"
	"kaged.dev/services/session-manager/internal/adapter/jetstream"
	"kaged.dev/services/session-manager/internal/adapter/metered"
	noticesadapter "kaged.dev/services/session-manager/internal/adapter/notices"
	"kaged.dev/services/session-manager/internal/adapter/sessionmanager"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/logs/core/logs"
	"kaged.dev/services/session-manager/internal/operators/core/localconfig"
	"kaged.dev/services/session-manager/internal/sessions/core/frames"
	"kaged.dev/services/session-manager/internal/sessions/core/idle"
	"kaged.dev/services/session-manager/internal/sessions/core/lease"
	"kaged.dev/services/session-manager/internal/sessions/core/live"
	"kaged.dev/services/session-manager/internal/sessions/core/notices"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/runs"
	"kaged.dev/services/session-manager/internal/sessions/core/sessions"
	"kaged.dev/services/session-manager/internal/sessions/server"
	"kaged.dev/services/session-manager/internal/sessions/store"
)

// Deps are the dependencies of the context. Every field but NoSandbox is needed.
type Deps struct {
	DB    database.DB
	Log   *slog.Logger
	Local localconfig.Source
	// Projects is the registry of the context of projects.
	Projects sessions.Projects
	Tools    sessions.Tools
	Harness  grpc.ClientConnInterface
	// Issue is the service of issues.
	Issue grpc.ClientConnInterface
	NATS  bus.Config
	// Self is this process as others see it.
	Self lease.Holder
	// Dial reaches another session-manager at the address of a lease.
	Dial func(address string) (grpc.ClientConnInterface, error)
	// NoSandbox says that cages are switched off on this daemon.
	NoSandbox bool
	// Workspaces are all there are, the default one by the empty name. CheckStart fails where no run of an operator may
	// start in a workspace.
	Workspaces []string
	CheckStart func(ctx context.Context, operator, workspace string) error
	// Draining returns the workspaces that are drained, WorkspaceWait is how long runs wait for them; nil and 0 in a
	// deployment of one operator.
	Draining      func(ctx context.Context) ([]string, error)
	WorkspaceWait time.Duration
	// Telemetry are the process's traces and metrics. It may be nil.
	Telemetry *telemetry.Kit
	// IdleHooks are called when a session has been idle for a while.
	IdleHooks []idle.Hook
	// Logs writes the logs of projects.
	Logs logs.Teller
}

// Sessions is the context.
type Sessions struct {
	// Service answers for sessions, for sagas.
	Service *sessions.Service
	cfg     Config
	// Notices tells consoles of changes, also for other contexts.
	Notices *notices.Sender
	live    *live.Registry
	stream  *jetstream.Stream
	idle    *idle.Watcher
}

// New returns the context. It starts no goroutine.
func New(cfg Config, deps Deps) *Sessions {
	kept := store.NewSessions(deps.DB)
	tracker := issues.New(deps.Issue)
	var registry *live.Registry
	var service *sessions.Service
	stream := jetstream.New(jetstream.Config{
		Conn: deps.NATS, Frames: cfg.frames(),
		Listen: func(ctx context.Context, conn *bus.Conn) error {
			return issues.Listen(ctx, conn, deps.Log, func(owner string, p frames.IssueChanged) {
				registry.Show(owner, p.ProjectID, p)
			})
		},
	}, deps.Log)
	told := notices.New(
		notices.Deps{Store: kept, Limits: limitsOf(deps.Local), Send: noticesadapter.Send(stream), Log: deps.Log},
	)
	runner := harness.New(deps.Harness, cfg.HarnessTimeout.D(), deps.NoSandbox, deps.Telemetry, deps.CheckStart)
	watcher := idle.New(idle.Deps{
		Hooks: deps.IdleHooks, Default: cfg.IdleDebounce.D(), Timeout: cfg.HookTimeout.D(), Warn: deps.Log.Warn,
		Acquire: func(ctx context.Context, id string) (idle.Session, func(), error) {
			s, release, err := registry.Acquire(ctx, id)
			return idleSession{s}, release, err
		},
	})
	registry = live.NewRegistry(live.Deps{
		Told: func(before, after record.Session, c record.Change) {
			told.Changed(before, after, c)
			deps.Logs.Changed(after, c)
			watcher.Changed(before, after, c)
			service.Followed(before, after)
		},
		Config: cfg.live(deps.WorkspaceWait), Draining: deps.Draining, Self: deps.Self,
		Store: metered.Store(kept, deps.Telemetry), Stream: metered.Stream(stream, deps.Telemetry),
		Projects: deps.Projects, Log: deps.Log,
		Runs: runs.Deps{
			Harness:  runner,
			Issues:   tracker,
			Standing: kept,
			Renderer: framejson.Renderer{}, Config: deps.Local, Log: deps.Log,
			HoldBack: cfg.HoldBack.D(), CancelGrace: cfg.CancelGrace.D(),
			ApprovalTimeout: cfg.ApprovalTimeout.D(), Resumptions: cfg.ResumeLimit,
		},
	})
	service = sessions.New(sessions.Deps{
		Config: sessions.Config{
			MaxContent: cfg.MaxContent, RunStarts: cfg.RunStarts, StopTimeout: cfg.StopTimeout.D(),
			ToolsTimeout: cfg.ToolsTimeout.D(), ToolsRetry: cfg.SweepInterval.D(),
			Workspaces: deps.Workspaces,
			AttachWait: cfg.AttachWait.D(), Farewell: cfg.Farewell.D(),
		},
		Store: kept, Live: registry, Projects: deps.Projects, Tools: deps.Tools,
		Told: func(owner string, what any) {
			told.Tell(owner, what)
			if created, ok := what.(notices.Session); ok {
				deps.Logs.Created(created.Session)
			}
		},
		Recorded: func(r audit.Record) { deps.Logs.Audited(r) },
		Limits:   limitsOf(deps.Local),
		Issues:   tracker, Peers: sessionmanager.New(deps.Dial), Compactor: runner,
		Renderer: framejson.Renderer{}, Log: deps.Log,
	})
	deps.Telemetry.Observe(telemetry.Leases, func() float64 { return float64(registry.Count()) })
	deps.Telemetry.Observe(telemetry.Queue, func() float64 { return float64(service.Waiting()) })
	return &Sessions{cfg: cfg, Notices: told, live: registry, stream: stream, Service: service, idle: watcher}
}

// idleSession is a live session as hooks need it.
type idleSession struct{ *live.Session }

// Change implements [idle.Session].
func (s idleSession) Change(ctx context.Context, decide func(record.Session) (record.Change, error)) error {
	return s.Update(ctx, "", decide, nil)
}

// limitsOf returns how many sessions may have a run at work by an operator's configuration: in a project, and of the
// operator.
func limitsOf(local localconfig.Source) func(ctx context.Context, owner string) (perProject, perOperator int) {
	return func(ctx context.Context, owner string) (perProject, perOperator int) {
		var limits localconfig.Limits
		if cfg, err := local.Config(ctx, owner); err == nil {
			limits = cfg.Limits()
		}
		return cmp.Or(limits.SessionsPerProject, notices.PerProject), cmp.Or(limits.SessionsPerOperator, notices.PerOperator)
	}
}

// Register adds the context's services.
func (s *Sessions) Register(r grpc.ServiceRegistrar) {
	sessionmanagerv1.RegisterSessionServiceServer(r, server.New(s.Service))
	sessionmanagerv1.RegisterSystemServiceServer(r, server.NewNotices(s.Notices))
	sessionmanagerv1.RegisterAttachServiceServer(r, server.NewAttach(s.Service, s.cfg.AttachTimeout.D()))
	sessionmanagerv1.RegisterTerminalServiceServer(r, server.NewTerminal(s.Service))
}

// ProbeWrite writes about as much as a frame, in a transaction that is rolled back. It fails while the database has
// no room.
func ProbeWrite(ctx context.Context, tx pgx.Tx) error { return store.ProbeWrite(ctx, tx) }

// Stream connects to NATS and publishes frames until ctx ends. It outlives [Sessions.Run], because it carries its
// last frames.
func (s *Sessions) Stream(ctx context.Context) { s.stream.Run(ctx) }

// Notify sends messages on a subject of NATS to its listeners of now. It fails with unavailable.
func (s *Sessions) Notify(ctx context.Context, subject string, messages ...[]byte) error {
	return s.stream.Notify(ctx, subject, messages...)
}

// Streaming fails with unavailable while frames wait for NATS.
func (s *Sessions) Streaming() error { return s.stream.Ready() }

// Run keeps leases and puts abandoned runs in order until ctx ends, and returns when every session is out of memory.
func (s *Sessions) Run(ctx context.Context) {
	var work sync.WaitGroup
	work.Go(func() { s.Service.TellWorkspaces(ctx) })
	work.Go(func() { s.Service.WatchWorkspaces(ctx) })
	work.Go(func() { s.Service.FillWords(ctx) })
	work.Go(func() { s.Notices.Run(ctx) })
	work.Go(func() { s.Service.CompactSessions(ctx) })
	work.Go(func() {
		<-ctx.Done()
		s.idle.Close()
	})
	work.Go(func() { s.Service.FollowRuns(ctx) })
	s.live.Run(ctx)
	work.Wait()
}

// Drain ends runs, or waits for their next completed step, and tells sockets, until ctx ends.
func (s *Sessions) Drain(ctx context.Context) { s.live.Drain(ctx) }

// Live returns how many sessions this process holds in memory.
func (s *Sessions) Live() int { return s.live.Count() }

// Users returns how many requests and sockets keep a session in memory.
func (s *Sessions) Users(id string) int { return s.live.Users(id) }
