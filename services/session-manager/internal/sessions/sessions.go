// Package sessions assembles the context of sessions: their messages, runs and approvals. Only this context knows
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

// Deps are the dependencies of the context. Every field is required unless it says otherwise.
type Deps struct {
	DB    database.DB
	Log   *slog.Logger
	Local localconfig.Source
	// Projects is the registry of projects.
	Projects sessions.Projects
	Tools    sessions.Tools
	Harness  grpc.ClientConnInterface
	// Issue is the connection to the issue service.
	Issue grpc.ClientConnInterface
	NATS  bus.Config
	// Self is this process as a lease holder.
	Self lease.Holder
	// Dial connects to the session-manager at the address of a lease.
	Dial func(address string) (grpc.ClientConnInterface, error)
	// NoSandbox says that cages are switched off in this process.
	NoSandbox bool
	// Workspaces are the names of all workspaces; the default one has the empty name. CheckStart fails if an
	// operator's runs may not start in a workspace.
	Workspaces []string
	CheckStart func(ctx context.Context, operator, workspace string) error
	// Draining returns the names of the drained workspaces, WorkspaceWait bounds the wait of runs for them; nil and 0
	// in a deployment for one operator.
	Draining      func(ctx context.Context) ([]string, error)
	WorkspaceWait time.Duration
	// Telemetry is the process's traces and metrics. It may be nil.
	Telemetry *telemetry.Kit
	// IdleHooks are called when a session has been idle for some time. It may be nil.
	IdleHooks []idle.Hook
	// Logs writes the logs of projects.
	Logs logs.Teller
}

// Sessions is the context.
type Sessions struct {
	// Service carries out operators' actions on sessions, also for sagas.
	Service *sessions.Service
	cfg     Config
	// Notices informs consoles about changes, also those of other contexts.
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
	runner := harness.New(deps.Harness, cfg.HarnessTimeout.D(), deps.NoSandbox, deps.Telemetry,
		func(ctx context.Context, operator, workspace string) error {
			if err := registry.CheckWorkspace(workspace); err != nil {
				return err
			}
			return deps.CheckStart(ctx, operator, workspace)
		})
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
			ApprovalTimeout: cfg.ApprovalTimeout.D(), Resumptions: cfg.ResumeLimit, StartFor: cfg.ResumeTimeout.D(),
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

// idleSession adapts a live session to [idle.Session].
type idleSession struct{ *live.Session }

// History implements [idle.Session].
func (s idleSession) History(ctx context.Context) ([]record.Message, error) {
	h, err := s.Session.History(ctx)
	return h.Messages, err
}

// Change implements [idle.Session].
func (s idleSession) Change(ctx context.Context, decide func(record.Session) (record.Change, error)) error {
	return s.Update(ctx, "", decide, nil)
}

// limitsOf returns the limits of sessions with an active run from an operator's configuration: per project, and per
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

// ProbeWrite writes about as many bytes as a frame has, for a transaction that is rolled back. It fails while the
// database has no room.
func ProbeWrite(ctx context.Context, tx pgx.Tx) error { return store.ProbeWrite(ctx, tx) }

// Stream connects to NATS and publishes frames until ctx ends. End ctx after [Sessions.Run] has returned, because
// Run publishes last frames.
func (s *Sessions) Stream(ctx context.Context) { s.stream.Run(ctx) }

// Notify sends messages on a NATS subject to its present subscribers. It fails with unavailable.
func (s *Sessions) Notify(ctx context.Context, subject string, messages ...[]byte) error {
	return s.stream.Notify(ctx, subject, messages...)
}

// Streaming fails with unavailable if frames cannot be published to NATS.
func (s *Sessions) Streaming() error { return s.stream.Ready() }

// Run renews leases, repairs abandoned runs and does all periodic work until ctx ends, and returns when no session
// is live.
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

// Drain hands runs over at their next safe point, at the latest when ctx ends, and tells sockets; see
// [live.Registry.Drain].
func (s *Sessions) Drain(ctx context.Context) { s.live.Drain(ctx) }

// Live returns the number of sessions that are live in this process.
func (s *Sessions) Live() int { return s.live.Count() }

// Kept returns the bytes of the cached conversations of the live sessions.
func (s *Sessions) Kept() int64 { return s.live.Kept() }

// Users returns the number of requests, sockets and runs that hold a live session.
func (s *Sessions) Users(id string) int { return s.live.Users(id) }
