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

// txPauses are the pauses between the attempts of a conflicting transaction.
var txPauses = retry.Pauses{First: 4 * time.Millisecond, Last: time.Second, Tries: 6, Spread: true}

// pingLimit is the time limit of a readiness check.
const pingLimit = 2 * time.Second

// Beginner begins transactions, as a pool does.
type Beginner interface {
	Begin(context.Context) (pgx.Tx, error)
}

// InTx runs fn in a transaction and commits it if fn returns nil. After a serialization failure or a deadlock it is
// repeated, a few times, so fn must have no effect outside tx and must be safe to call repeatedly. Errors of fn go
// through [Classify], so that a *fault.Error is returned unchanged. If the connection is lost during the commit, the
// error has [fault.CommitUnknown]. tx is invalid after fn has returned.
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
	// Also after a panic of fn. After a commit it has no effect; the pool discards a broken connection.
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

// Refused reports whether the server answered that a transaction, or a single statement, did not happen. A fatal error
// ends a session before or after a commit, so it does not count as such an answer.
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
