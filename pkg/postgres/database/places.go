package database

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// slowAfter is the time after which work counts as slow.
const slowAfter = 200 * time.Millisecond

// places bound the work with a connection at the same time. Slow work leaves its place and keeps its connection, so the
// pool opens another only beside slow work. nil admits all work at once.
type places struct {
	taken chan struct{}
	slow  time.Duration
}

// newPlaces returns places for all connections of pool but one; none if that would be less than two.
func newPlaces(pool *pgxpool.Pool) *places {
	if n := pool.Config().MaxConns - 1; n >= 2 {
		return &places{make(chan struct{}, n), slowAfter}
	}
	return nil
}

// take waits for a place. If ctx ends first, the pool's call fails with ctx's error. leave gives the
// place back; later calls have no effect.
func (p *places) take(ctx context.Context) (leave func()) {
	if p == nil {
		return func() {}
	}
	select {
	case p.taken <- struct{}{}:
	case <-ctx.Done():
		return func() {}
	}
	slow := time.AfterFunc(p.slow, func() { <-p.taken })
	return func() {
		if slow.Stop() {
			<-p.taken
		}
	}
}

// placed is an open pool with the places for its use.
type placed struct {
	*pgxpool.Pool
	places *places
}

// heldRows leaves a place when the rows end.
type heldRows struct {
	pgx.Rows
	leave func()
}

func (r heldRows) Next() bool {
	more := r.Rows.Next()
	if !more {
		r.leave()
	}
	return more
}

func (r heldRows) Close() {
	r.Rows.Close()
	r.leave()
}

// heldRow leaves a place when the row is read.
type heldRow struct {
	pgx.Row
	leave func()
}

func (r heldRow) Scan(into ...any) error {
	defer r.leave()
	return r.Row.Scan(into...)
}

// heldBatch leaves a place when the results are closed.
type heldBatch struct {
	pgx.BatchResults
	leave func()
}

func (b heldBatch) Close() error {
	defer b.leave()
	return b.BatchResults.Close()
}

// heldTx leaves a place when the transaction ends.
type heldTx struct {
	pgx.Tx
	leave func()
}

func (t heldTx) Commit(ctx context.Context) error {
	defer t.leave()
	return t.Tx.Commit(ctx)
}

func (t heldTx) Rollback(ctx context.Context) error {
	defer t.leave()
	return t.Tx.Rollback(ctx)
}
