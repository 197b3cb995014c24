// Package store has the transactions that span contexts. Each step is a function of one context's store.
package store

import (
	"context"

	"kaged.dev/pkg/postgres/database"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	auditstore "kaged.dev/services/session-manager/internal/audit/store"
	projectsstore "kaged.dev/services/session-manager/internal/projects/store"
	sessionsstore "kaged.dev/services/session-manager/internal/sessions/store"
)

// Sagas implements [unregister.Store].
type Sagas struct{ db database.DB }

// New returns the transactions in db.
func New(db database.DB) *Sagas { return &Sagas{db} }

// RemoveProject implements [unregister.Store]. The lock on the project prevents the creation of sessions meanwhile.
func (s *Sagas) RemoveProject(ctx context.Context, owner, id string, records []audit.Record) (removed bool, err error) {
	err = database.InTx(ctx, s.db, func(tx database.DB) error {
		removed = false
		if err := projectsstore.Lock(ctx, tx, owner, id); err != nil {
			return err
		}
		open, err := sessionsstore.HasOpen(ctx, tx, owner, id)
		if err != nil || open {
			return err
		}
		if err := projectsstore.Delete(ctx, tx, owner, id); err != nil {
			return err
		}
		removed = true
		return auditstore.Append(ctx, tx, records)
	})
	return removed && err == nil, database.Fail(err, "unregister project")
}
