package database

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Pipeline collects statements, so that generated queries without results can go to the server
// together.
type Pipeline struct{ batch pgx.Batch }

// Exec implements [Querier] and only collects.
func (p *Pipeline) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	p.batch.Queue(sql, args...)
	return pgconn.CommandTag{}, nil
}

// Query is not for pipelines.
func (p *Pipeline) Query(context.Context, string, ...any) (pgx.Rows, error) {
	return nil, errors.New("a pipeline returns no rows")
}

// QueryRow is not for pipelines.
func (p *Pipeline) QueryRow(context.Context, string, ...any) pgx.Row {
	panic("a pipeline returns no rows")
}

// Send runs the collected statements in one round trip and returns the first error. They are one transaction, or take
// part in the one that db is.
func (p *Pipeline) Send(ctx context.Context, db DB) error {
	return db.SendBatch(ctx, &p.batch).Close()
}
