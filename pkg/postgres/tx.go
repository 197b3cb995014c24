package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/retry"
)

// txPauses are between the tries of a transaction that conflicts with others.
var txPauses = retry.Pauses{First: 4 * time.Millisecond, Last: time.Second, Tries: 6, Spread: true}

// pingLimit bounds a readiness check.
const pingLimit = 2 * time.Second

// Beginner begins transactions, as a pool does.
type Beginner interface {
	Begin(context.Context) (pgx.Tx, error)
}

// InTx runs fn in a transaction and commits it if fn returns nil. A serialization failure or a deadlock starts it
// again from the beginning, a few times, so fn must have no effect outside tx and must be safe to call repeatedly.
// Errors of fn are classified, so that a *fault.Error of fn's own comes back unchanged; one that was lost while the
// commit was on its way has [fault.CommitUnknown]. tx is dead when fn returns.
func InTx(ctx context.Context, pool Beginner, fn func(pgx.Tx) error) error {
	var err error
	for range txPauses.Each(ctx) {
		if err = runTx(ctx, pool, fn); err == nil || !isRetryable(err) {
			return Classify(err)
		}
	}
	if ctx.Err() != nil {
		return fault.From(ctx.Err())
	}
	return Classify(err)
}

func runTx(ctx context.Context, pool Beginner, fn func(pgx.Tx) error) (err error) {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return err
	}
	committing := false
	// Also when fn panics. After a commit it has no effect; a broken connection is thrown away by
	// the pool.
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
	return unavailable(err, "The database connection was lost while a change was being stored; it may or may not "+
		"have been.").With(fault.CommitUnknown, true)
}

// Refused reports whether the server answered that a transaction, or a statement that is one by itself, did not
// happen. A session that ends says so as fatal, before a commit or after it, which is no such answer.
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
