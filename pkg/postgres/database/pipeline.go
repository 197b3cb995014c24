package database

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Pipeline collects statements, so that generated queries without results can be sent to the server together.
type Pipeline struct{ batch pgx.Batch }

// Exec implements [Querier]; it only collects.
func (p *Pipeline) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	p.batch.Queue(sql, args...)
	return pgconn.CommandTag{}, nil
}

// Query fails: a pipeline returns no rows.
func (p *Pipeline) Query(context.Context, string, ...any) (pgx.Rows, error) {
	return nil, errors.New("a pipeline returns no rows")
}

// QueryRow fails: a pipeline returns no rows.
func (p *Pipeline) QueryRow(context.Context, string, ...any) pgx.Row {
	panic("a pipeline returns no rows")
}

// Send runs the collected statements in one round trip and returns the first error. They form one transaction, or are
// part of db if that is one.
func (p *Pipeline) Send(ctx context.Context, db DB) error {
	return db.SendBatch(ctx, &p.batch).Close()
}
