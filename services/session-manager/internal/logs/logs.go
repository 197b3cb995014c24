// Package logs assembles the context of logs: log entries of projects for operators, and their live stream.
package logs

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/grpc"

	"kaged.dev/pkg/postgres/database"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/session-manager/internal/adapter/notices"
	"kaged.dev/services/session-manager/internal/logs/core/logs"
	"kaged.dev/services/session-manager/internal/logs/server"
	"kaged.dev/services/session-manager/internal/logs/store"
)

// Logs is the context.
type Logs struct {
	// Teller writes lines about committed changes.
	Teller    logs.Teller
	store     *store.Logs
	collector *logs.Collector
}

// New returns the context with its store in db. It announces stored entries through to and logs its own failures to
// log. It starts no goroutine.
func New(cfg Config, db database.DB, to notices.Notifier, log *slog.Logger) *Logs {
	kept := store.New(db)
	collector := logs.NewCollector(logs.CollectorDeps{
		Store: kept, Announce: notices.Announce(to), Missed: notices.Missed(to), Log: log,
		Keep: time.Duration(cfg.LogDays) * 24 * time.Hour, Most: cfg.LogEntries,
	})
	return &Logs{Teller: logs.Teller{To: collector}, store: kept, collector: collector}
}

// Tee returns a logger that writes to log, and also stores lines of level info and above about a session, run or
// project in the project's log.
func (l *Logs) Tee(log *slog.Logger) *slog.Logger {
	return slog.New(logs.Tee(log.Handler(), l.collector))
}

// Register adds the context's service. known fails with not_found if the operator does not have the project.
func (l *Logs) Register(r grpc.ServiceRegistrar, known func(ctx context.Context, owner, project string) error) {
	sessionmanagerv1.RegisterLogServiceServer(r, server.New(&logs.Service{Store: l.store, Known: known}))
}

// Run stores entries until ctx ends, then the waiting ones.
func (l *Logs) Run(ctx context.Context) { l.collector.Run(ctx) }
