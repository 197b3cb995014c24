package database

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"kaged.dev/pkg/postgres"
)

// Querier is a [DB] or a [Pipeline].
type Querier interface {
	Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
	Query(context.Context, string, ...any) (pgx.Rows, error)
	QueryRow(context.Context, string, ...any) pgx.Row
}

// DB runs a store's statements: the service's [Pool], or a transaction. One transaction may span several stores: each
// store is created in it.
type DB interface {
	Querier
	Begin(context.Context) (pgx.Tx, error)
	SendBatch(context.Context, *pgx.Batch) pgx.BatchResults
}

// InTx runs f in db if that is a transaction, and otherwise in a new transaction, as [postgres.InTx] does: then f may
// run several times.
func InTx(ctx context.Context, db DB, f func(tx DB) error) error {
	if tx, ok := db.(pgx.Tx); ok {
		return f(tx)
	}
	return postgres.InTx(ctx, db, func(tx pgx.Tx) error { return f(tx) })
}
