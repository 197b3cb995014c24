package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"kaged.dev/pkg/fault"
)

// A transaction that conflicts with others is tried txAttempts times, with a pause that grows from txPause.
const (
	txAttempts = 6
	txPause    = 4 * time.Millisecond
)

// pingLimit bounds a readiness check.
const pingLimit = 2 * time.Second

// InTx runs fn in a transaction and commits it if fn returns nil. A serialization failure or a deadlock starts it again
// from the beginning, a few times, so fn must have no effect outside tx and must be safe to call repeatedly. Errors of
// fn are classified, so that a *fault.Error of fn's own comes back unchanged; one that was lost while the commit was on its way
// has [fault.CommitUnknown]. tx is dead when fn returns.
func InTx(ctx context.Context, pool *pgxpool.Pool, fn func(pgx.Tx) error) error {
	pause := txPause
	for attempt := 1; ; attempt++ {
		err := runTx(ctx, pool, fn)
		if err == nil || !isRetryable(err) || attempt == txAttempts {
			return Classify(err)
		}
		select {
		case <-ctx.Done():
			return fault.From(ctx.Err())
		case <-time.After(pause/2 + rand.N(pause)):
		}
		pause *= 2
	}
}

func runTx(ctx context.Context, pool *pgxpool.Pool, fn func(pgx.Tx) error) (err error) {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return err
	}
	committing := false
	// Also when fn panics. After a commit it does nothing; a broken connection is thrown away by the pool.
	defer func() {
		if !committing {
			_ = tx.Rollback(context.WithoutCancel(ctx))
		}
	}()
	if err := fn(tx); err != nil {
		return err
	}
	committing = true
	err = tx.Commit(ctx)
	if err == nil || errors.Is(err, pgx.ErrTxCommitRollback) || Refused(err) {
		return err
	}
	return unavailable(err, "The database connection was lost while a change was being stored; it may or may not have been.").With(fault.CommitUnknown, true)
}

// Refused reports whether the server answered that a transaction, or a statement that is one by itself, did not happen. A
// session that ends says so as fatal, before a commit or after it, which is no such answer.
func Refused(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.SeverityUnlocalized == "ERROR"
}

// Ping reports whether the database answers, within two seconds.
func Ping(ctx context.Context, pool *pgxpool.Pool) error {
	ctx, cancel := context.WithTimeout(ctx, pingLimit)
	defer cancel()
	err := pool.Ping(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return unavailable(err, "The database does not answer.")
	}
	return Classify(err)
}
