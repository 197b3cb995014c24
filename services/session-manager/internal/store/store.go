// Package store keeps session-manager's state in Postgres. It is SQL and the translation of rows: rules are in core.
//
// Each noun has a type of its own that implements what core asks for ([Projects], [Audit], [Operator], ...). They share one
// pool and may be used concurrently. What must be written together is: functions that take a [Querier] join the caller's
// transaction.
package store

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/store/db"
)

// Querier is a pool, a connection or a transaction.
type Querier = db.DBTX

// fail turns an error of Postgres into one to show: unavailable while it cannot be reached or is starting or stopping,
// internal for what is a defect. Faults and the context's own errors stay what they are. what says in a few words what was
// being done.
func fail(err error, what string) error {
	var f *fault.Error
	var pg *pgconn.PgError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &f), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.As(err, &pg) && !outage(pg.Code), errors.Is(err, pgx.ErrNoRows):
		return fault.Wrap(err, fault.Internal, "Something went wrong inside kaged; the log has the cause.").With("operation", what)
	}
	return fault.Wrap(err, fault.Unavailable, "The database cannot be reached at the moment; try again shortly.").With("subsystem", "postgres")
}

// outage reports whether a code of Postgres says that it is not there for us: connection, resources, operator intervention.
func outage(code string) bool {
	return strings.HasPrefix(code, "08") || strings.HasPrefix(code, "53") || strings.HasPrefix(code, "57P")
}
