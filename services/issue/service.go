package issue

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fullstorydev/grpchan"
	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/grpc"

	"kaged.dev/pkg/bus"
	"kaged.dev/pkg/postgres"
	"kaged.dev/pkg/postgres/database"
	"kaged.dev/pkg/rpc"
	issuev1 "kaged.dev/proto/gen/kaged/issue/v1"
	"kaged.dev/services/issue/internal/adapter/notices"
	"kaged.dev/services/issue/internal/core/issues"
	"kaged.dev/services/issue/internal/database/migrations"
	"kaged.dev/services/issue/internal/server"
	"kaged.dev/services/issue/internal/store"
)

// Deps are the dependencies of a [Service].
type Deps struct {
	Log *slog.Logger
	// DatabaseURL connects as the owner of the schema, AppURL as the services' role. If AppURL is empty, the owner changes
	// to that role.
	DatabaseURL, AppURL string
	// Idle is the time after which an unused connection ends; 0 keeps it.
	Idle time.Duration
	// NATS is the server that receives notices of changes; nil sends no notices.
	NATS *bus.Config
	// Shared is true if several operators share the deployment. A workspace may then call only for its own operator.
	Shared bool
}

// Service is the issue service. It refuses calls until [Service.Run] has opened the database.
type Service struct {
	cfg    Config
	deps   Deps
	pool   *database.Pool
	health *postgres.Health
	ready  atomic.Bool
	store  *store.Store
	sender *notices.Sender
	server *server.Server
	tools  *server.Tools
}

// New returns a Service. It starts no goroutine.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	pool := new(database.Pool)
	s := &Service{
		cfg: cfg, deps: deps, pool: pool, store: store.New(pool), sender: notices.New(deps.Log),
		health: postgres.NewHealth(deps.Log, cfg.DatabaseStall.D(), store.ProbeWrite),
	}
	var kept issues.Store = s.store
	if deps.NATS != nil {
		kept = s.sender.Around(kept)
	}
	service := issues.New(kept)
	s.server, s.tools = server.New(service), server.NewTools(service, s.store)
	return s, nil
}

// Register implements host.Service.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	around := []grpc.UnaryServerInterceptor{s.readyUnary, rpc.RequireOperator}
	if s.deps.Shared {
		around = append(around, server.Proven(s.store))
	}
	r = grpchan.WithUnaryInterceptors(r, around...)
	issuev1.RegisterIssueServiceServer(r, s.server)
	issuev1.RegisterIssueToolServiceServer(r, s.tools)
}

// Ready implements host.Readier.
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

// Run implements host.Service. It fails if the schema cannot be used, and waits while the database is unavailable.
func (s *Service) Run(ctx context.Context) error {
	pool, err := s.openPool(ctx)
	if pool == nil {
		return err
	}
	defer postgres.Close(pool, s.cfg.DatabaseStall.D())
	s.pool.Open(pool)
	defer s.pool.Close()
	var work sync.WaitGroup
	defer work.Wait()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	work.Go(func() { s.health.Watch(watching, pool) })
	if s.deps.NATS != nil {
		begun := time.Now() // before the first request
		work.Go(func() { s.sender.Run(watching, *s.deps.NATS, begun, s.store.Changed) })
	}
	s.ready.Store(true)
	defer s.ready.Store(false)
	<-ctx.Done()
	return nil
}

// openPool opens the connection pool. It returns nil without an error if ctx ends first.
func (s *Service) openPool(ctx context.Context) (*pgxpool.Pool, error) {
	cfg := postgres.Config{
		OwnerURL: s.deps.DatabaseURL, URL: s.deps.AppURL, MaxConns: int32(s.cfg.DatabaseConns),
		Idle: s.deps.Idle, Log: s.deps.Log, Health: s.health,
	}
	return postgres.Await(ctx, cfg, migrations.Files, migrations.Schema)
}

// readyUnary refuses calls until the service is ready, and while the database does not answer.
func (s *Service) readyUnary(
	ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler,
) (any, error) {
	if !s.ready.Load() {
		return nil, database.NotOpen()
	}
	return s.health.Call(ctx, func(ctx context.Context) (any, error) { return next(ctx, req) })
}
