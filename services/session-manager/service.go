package sessionmanager

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/grpc"

	"kaged.dev/pkg/bus"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/postgres"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/session-manager/internal/adapter/jetstream"
	"kaged.dev/services/session-manager/internal/core/lease"
	"kaged.dev/services/session-manager/internal/store"
	"kaged.dev/services/session-manager/internal/store/migrations"
)

// Deps are what a [Service] works with. Every field but AppURL and LocalConfig is needed.
type Deps struct {
	Log     *slog.Logger
	Version string
	// NoSandbox says that cages are switched off on this daemon.
	NoSandbox bool
	// Self is this process as others see it.
	Self lease.Holder
	// DatabaseURL connects as the owner of the schema, AppURL as the services' role; empty means the owner steps down.
	DatabaseURL, AppURL string
	NATS                bus.Config
	Harness, ToolRunner grpc.ClientConnInterface
	// DialAddress reaches another session-manager at the address of a lease.
	DialAddress func(address string) (grpc.ClientConnInterface, error)
	// LocalConfig is the path of local.toml; "" stands for an empty configuration.
	LocalConfig string
}

// Service is session-manager.
type Service struct {
	cfg    Config
	deps   Deps
	stream *jetstream.Stream
	health *postgres.Health
	parts  atomic.Pointer[parts] // nil until the database is open
}

// New returns a Service. Nothing is started.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Service{
		cfg: cfg, deps: deps, stream: jetstream.New(jetstream.Config{Conn: deps.NATS, Frames: cfg.frames()}, deps.Log),
		health: postgres.NewHealth(deps.Log, cfg.DatabaseStall.D(), store.ProbeWrite),
	}, nil
}

// Register implements host.Service.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	for _, service := range []struct {
		desc grpc.ServiceDesc
		pick func(*parts) any
	}{
		{sessionmanagerv1.SessionService_ServiceDesc, func(p *parts) any { return p.sessionServer }},
		{sessionmanagerv1.AttachService_ServiceDesc, func(p *parts) any { return p.attachServer }},
		{sessionmanagerv1.ProjectService_ServiceDesc, func(p *parts) any { return p.projectServer }},
		{sessionmanagerv1.AuditService_ServiceDesc, func(p *parts) any { return p.auditServer }},
		{sessionmanagerv1.OperatorService_ServiceDesc, func(p *parts) any { return p.operatorServer }},
	} {
		r.RegisterService(late(service.desc, s.health, func() (any, error) {
			p, err := s.open()
			if err != nil {
				return nil, err
			}
			return service.pick(p), nil
		}), nil)
	}
}

func (s *Service) open() (*parts, error) {
	if p := s.parts.Load(); p != nil {
		return p, nil
	}
	return nil, fault.New(fault.Unavailable, "The database cannot be reached yet; try again shortly.").With("subsystem", "storage")
}

// Ready fails while the service cannot work: before the database is open, and while it does not answer or refuses writes. Without NATS
// it works; only streaming waits.
func (s *Service) Ready(ctx context.Context) error {
	p, err := s.open()
	if err != nil {
		return err
	}
	if err := s.health.Err(); err != nil {
		return err
	}
	return postgres.Ping(ctx, p.pool)
}

// Drain implements host.Drainer: runs end, or reach their next completed step, and sockets are told.
func (s *Service) Drain(ctx context.Context) {
	if p := s.parts.Load(); p != nil {
		p.live.Drain(ctx)
	}
}

// Run implements host.Service. It fails if the schema cannot be used, such as one of a newer version, or the service cannot be
// made ready in it; a database that is away is waited for.
func (s *Service) Run(ctx context.Context) error {
	pool, err := s.openPool(ctx)
	if pool == nil {
		return err
	}
	defer postgres.Close(pool, s.cfg.DatabaseStall.D())
	// The stream outlives the sessions, whose last frames go through it.
	var work sync.WaitGroup
	streaming, stopStreaming := context.WithCancel(context.WithoutCancel(ctx))
	work.Go(func() { s.stream.Run(streaming) })
	defer work.Wait()
	defer stopStreaming()

	p := s.build(pool)
	if err := s.boot(ctx, p); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	work.Go(func() { p.keepPartitions(streaming) })
	work.Go(func() { s.health.Watch(streaming, pool) })
	work.Go(func() { p.sessions.TellWorkspaces(ctx) })
	s.parts.Store(p)
	defer s.parts.Store(nil)
	p.live.Run(ctx)
	return nil
}

// The pauses between two tries while the database is away.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = 2 * time.Second
)

// retry calls f until it does not fail with unavailable, or ctx ends.
func (s *Service) retry(ctx context.Context, f func() error) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := f()
		if !errors.Is(err, fault.Unavailable) || ctx.Err() != nil {
			return err
		}
		s.deps.Log.Warn("waiting for the database", "error", err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}

// openPool returns nil without an error if ctx ends first.
func (s *Service) openPool(ctx context.Context) (pool *pgxpool.Pool, err error) {
	cfg := postgres.Config{
		OwnerURL: s.deps.DatabaseURL, URL: s.deps.AppURL, MaxConns: int32(s.cfg.DatabaseConns), Log: s.deps.Log, Health: s.health,
	}
	err = s.retry(ctx, func() (err error) {
		pool, err = postgres.Open(ctx, cfg, migrations.Files, migrations.Schema)
		return err
	})
	if ctx.Err() != nil && pool == nil {
		return nil, nil
	}
	return pool, err
}

// boot prepares what must be there before the first request.
func (s *Service) boot(ctx context.Context, p *parts) error {
	if err := s.retry(ctx, func() error { return p.audit.Prepare(ctx) }); err != nil {
		return err
	}
	return s.retry(ctx, func() error { return p.operator.Boot(ctx, s.cfg.RotateSecrets) })
}
