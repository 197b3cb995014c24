// Package store stores the common state of gateways in Postgres.
package store

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"kaged.dev/pkg/postgres/database"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	auditstore "kaged.dev/services/session-manager/internal/audit/store"
	"kaged.dev/services/session-manager/internal/operators/store/db"
)

// Operator stores the common state of gateways. It implements operator.Store.
type Operator struct{ db database.DB }

// NewOperator returns the common state of gateways in db.
func NewOperator(db database.DB) *Operator { return &Operator{db} }

// EnsureEpoch implements operator.Store.
func (o *Operator) EnsureEpoch(ctx context.Context, fresh []byte, now int64) ([]byte, error) {
	q := db.New(o.db)
	secret, err := q.EnsureEpoch(ctx, fresh, now)
	if errors.Is(err, pgx.ErrNoRows) {
		secret, err = q.EnsureEpoch(ctx, fresh, now)
	}
	return secret, database.Fail(err, "read auth epoch")
}

// ReplaceEpoch implements operator.Store.
func (o *Operator) ReplaceEpoch(ctx context.Context, fresh []byte, now int64, record audit.Record) error {
	err := database.InTx(ctx, o.db, func(tx database.DB) error {
		q := db.New(tx)
		if err := q.ReplaceEpoch(ctx, fresh, now); err != nil {
			return err
		}
		if err := q.DropLaunchTokens(ctx); err != nil {
			return err
		}
		return auditstore.Append(ctx, tx, []audit.Record{record})
	})
	return database.Fail(err, "replace auth epoch")
}

// PutLaunchToken implements operator.Store.
func (o *Operator) PutLaunchToken(ctx context.Context, hash []byte, now, expiresAt int64) error {
	err := db.New(o.db).PutLaunchToken(ctx, hash, now, expiresAt)
	return database.Fail(err, "keep launch token")
}

// TakeLaunchToken implements operator.Store.
func (o *Operator) TakeLaunchToken(ctx context.Context, hash []byte, now int64) (bool, error) {
	expiresAt, err := db.New(o.db).TakeLaunchToken(ctx, hash)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil && now < expiresAt, database.Fail(err, "take launch token")
}
