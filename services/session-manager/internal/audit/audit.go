// Package audit puts the append-only record together: its rules, its store and its server.
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

// New returns the context in db; shared says that operators share the deployment. Nothing is started.
func New(db database.DB, log *slog.Logger, shared bool) *Audit {
	kept := store.NewAudit(db)
	return &Audit{log, kept, audit.NewService(kept, shared)}
}

// Register adds the context's services.
func (a *Audit) Register(r grpc.ServiceRegistrar) {
	sessionmanagerv1.RegisterAuditServiceServer(r, server.New(a.service))
}

// Debugged records a call with a debugging certificate, under the operator in the call's metadata, who alone sees
// it; without an operator everyone sees it, or in a shared deployment administrators. It is on disk when it returns.
func (a *Audit) Debugged(ctx context.Context, c rpc.DebugCall) error {
	record := audit.New(ctx, "debug.called", map[string]any{
		"method": c.Method, "certificate": c.Name, "serial": c.Serial, "valid_until": c.Until.UnixMilli(), "remote": c.Remote,
	})
	return a.service.Record(ctx, []audit.Record{record})
}

// Boot makes the partitions that records need, before the first request.
func (a *Audit) Boot(ctx context.Context) error { return a.store.Prepare(ctx) }

// partitionsEvery is how often the partitions of the months ahead are made.
const partitionsEvery = 24 * time.Hour

// Run makes the partitions of the months ahead until ctx ends.
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
