package database

import (
	"context"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"kaged.dev/pkg/fault"
)

// Pool is the service's connection pool, for stores that are built before the database can be reached. It exists
// because a pgxpool starts a goroutine when it is created. Until it is open each use fails with unavailable. The zero
// Pool is not open.
type Pool struct{ opened atomic.Pointer[placed] }

// Open opens p with pool.
func (p *Pool) Open(pool *pgxpool.Pool) { p.opened.Store(&placed{Pool: pool}) }

// OpenSparing is Open, and lets pool open its last connection only beside slow work. A pool of two is used in full.
func (p *Pool) OpenSparing(pool *pgxpool.Pool) { p.opened.Store(&placed{pool, newPlaces(pool)}) }

// Close closes p, so that each use fails. The caller closes the underlying pool.
func (p *Pool) Close() { p.opened.Store(nil) }

// Get returns the underlying pool. It fails with unavailable.
func (p *Pool) Get() (*pgxpool.Pool, error) {
	if pool := p.opened.Load(); pool != nil {
		return pool.Pool, nil
	}
	return nil, NotOpen()
}

// take returns the underlying pool with a place for the use of a connection.
func (p *Pool) take(ctx context.Context) (pool *pgxpool.Pool, leave func(), err error) {
	opened := p.opened.Load()
	if opened == nil {
		return nil, nil, NotOpen()
	}
	return opened.Pool, opened.places.take(ctx), nil
}

// NotOpen is the error of a request before the database is open.
func NotOpen() *fault.Error {
	return fault.New(fault.Unavailable, "The database cannot be reached yet; try again shortly.").
		With("subsystem", "storage")
}

// Exec implements [DB].
func (p *Pool) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	pool, leave, err := p.take(ctx)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	defer leave()
	return pool.Exec(ctx, sql, args...)
}

// Query implements [DB].
func (p *Pool) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	pool, leave, err := p.take(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := pool.Query(ctx, sql, args...)
	if err != nil {
		leave()
		return rows, err
	}
	return heldRows{rows, leave}, nil
}

// QueryRow implements [DB].
func (p *Pool) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	pool, leave, err := p.take(ctx)
	if err != nil {
		return closed{err}
	}
	return heldRow{pool.QueryRow(ctx, sql, args...), leave}
}

// Begin implements [DB].
func (p *Pool) Begin(ctx context.Context) (pgx.Tx, error) {
	pool, leave, err := p.take(ctx)
	if err != nil {
		return nil, err
	}
	tx, err := pool.Begin(ctx)
	if err != nil {
		leave()
		return nil, err
	}
	return heldTx{tx, leave}, nil
}

// SendBatch implements [DB].
func (p *Pool) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	pool, leave, err := p.take(ctx)
	if err != nil {
		return closedBatch{err}
	}
	return heldBatch{pool.SendBatch(ctx, b), leave}
}

// closed is the row of a closed pool.
type closed struct{ err error }

func (c closed) Scan(...any) error { return c.err }

// closedBatch is the result of a batch at a closed pool.
type closedBatch struct{ err error }

func (c closedBatch) Exec() (pgconn.CommandTag, error) { return pgconn.CommandTag{}, c.err }
func (c closedBatch) Query() (pgx.Rows, error)         { return nil, c.err }
func (c closedBatch) QueryRow() pgx.Row                { return closed(c) }
func (c closedBatch) Close() error                     { return c.err }
func (c closedBatch) Tx() pgx.Tx                       { return nil }
