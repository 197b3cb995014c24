package store

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"kaged.dev/pkg/postgres"
	"kaged.dev/services/session-manager/internal/core/audit"
	"kaged.dev/services/session-manager/internal/store/db"
)

// Operator keeps what gateways share. It implements operator.Store.
type Operator struct{ pool *pgxpool.Pool }

// NewOperator returns what gateways share in pool.
func NewOperator(pool *pgxpool.Pool) *Operator { return &Operator{pool} }

// EnsureEpoch implements operator.Store.
func (o *Operator) EnsureEpoch(ctx context.Context, fresh []byte, now int64) ([]byte, error) {
	q := db.New(o.pool)
	secret, err := q.EnsureEpoch(ctx, fresh, now)
	if errors.Is(err, pgx.ErrNoRows) {
		secret, err = q.EnsureEpoch(ctx, fresh, now)
	}
	return secret, fail(err, "read auth epoch")
}

// ReplaceEpoch implements operator.Store.
func (o *Operator) ReplaceEpoch(ctx context.Context, fresh []byte, now int64, record audit.Record) error {
	err := postgres.InTx(ctx, o.pool, func(tx pgx.Tx) error {
		q := db.New(tx)
		if err := q.ReplaceEpoch(ctx, fresh, now); err != nil {
			return err
		}
		if err := q.DropLaunchTokens(ctx); err != nil {
			return err
		}
		return AppendAudit(ctx, tx, []audit.Record{record})
	})
	return fail(err, "replace auth epoch")
}

// PutLaunchToken implements operator.Store.
func (o *Operator) PutLaunchToken(ctx context.Context, hash []byte, now, expiresAt int64) error {
	err := db.New(o.pool).PutLaunchToken(ctx, hash, now, expiresAt)
	return fail(err, "keep launch token")
}

// TakeLaunchToken implements operator.Store.
func (o *Operator) TakeLaunchToken(ctx context.Context, hash []byte, now int64) (bool, error) {
	expiresAt, err := db.New(o.pool).TakeLaunchToken(ctx, hash)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil && now < expiresAt, fail(err, "take launch token")
}
