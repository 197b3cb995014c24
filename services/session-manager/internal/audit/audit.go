// Package audit is the context of the append-only record: its rules, its store and its server.
package audit

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/grpc"

	"kaged.dev/pkg/postgres/database"
	"kaged.dev/pkg/rpc"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/audit/server"
	"kaged.dev/services/session-manager/internal/audit/store"
)

// Audit is the context.
type Audit struct {
	log     *slog.Logger
	store   *store.Audit
	service *audit.Service
}

// New returns the context in db; shared is true if operators share the deployment. It starts no goroutine.
func New(db database.DB, log *slog.Logger, shared bool) *Audit {
	kept := store.NewAudit(db)
	return &Audit{log, kept, audit.NewService(kept, shared)}
}

// Records is the record, for administrators.
func (a *Audit) Records() *audit.Service { return a.service }

// Register adds the context's services.
func (a *Audit) Register(r grpc.ServiceRegistrar) {
	sessionmanagerv1.RegisterAuditServiceServer(r, server.New(a.service))
}

// Debugged records a call with a debugging certificate, for the operator in the call's metadata. No other operator can
// read it.
// Without an operator everyone can read it, or in a shared deployment administrators. It is on disk when Debugged
// returns.
func (a *Audit) Debugged(ctx context.Context, c rpc.DebugCall) error {
	record := audit.New(ctx, "debug.called", map[string]any{
		"method": c.Method, "certificate": c.Name, "serial": c.Serial, "valid_until": c.Until.UnixMilli(), "remote": c.Remote,
	})
	return a.service.Record(ctx, []audit.Record{record})
}

// Boot creates the partitions that records need, before the first request.
func (a *Audit) Boot(ctx context.Context) error { return a.store.Prepare(ctx) }

// partitionsEvery is the interval at which the partitions of the coming months are created.
const partitionsEvery = 24 * time.Hour

// Run creates the partitions of the coming months until ctx ends.
func (a *Audit) Run(ctx context.Context) {
	ticker := time.NewTicker(partitionsEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := a.store.Prepare(ctx); err != nil && ctx.Err() == nil {
			a.log.Warn("the audit record's next partitions were not made; trying again tomorrow", "error", err)
		}
	}
}
