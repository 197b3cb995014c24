package postgres

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"kaged.dev/pkg/fault"
)

// SQLSTATEs that are handled here.
const (
	insufficientPrivilege = "42501"
	duplicateObject       = "42710"
	undefinedObject       = "42704"
	invalidParameter      = "22023"
	uniqueViolation       = "23505"
	serializationFailure  = "40001"
	deadlockDetected      = "40P01"
	lockNotAvailable      = "55P03"
	readOnlyTransaction   = "25006"
	unknownDatabase       = "3D000"
)

func unavailable(err error, format string, args ...any) *fault.Error {
	return fault.Wrap(err, fault.Unavailable, format, args...).With("subsystem", "storage")
}

// Classify converts an error of pgx to a fault. A database that is unreachable, starting, stopping, full, read-only or
// out of connections gives fault.Unavailable with details.subsystem "storage". A serialization failure or deadlock that
// was not retried, and a lock timeout, give the same code with another sentence. An ended context gives fault.Cancelled
// or fault.DeadlineExceeded. A *fault.Error and every other error (pgx.ErrNoRows, a violated constraint, wrong SQL) are
// returned unchanged. Causes stay in the chain. Classify(nil) is nil.
func Classify(err error) error {
	var known *fault.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return err
	case isUnavailable(err):
		return unavailable(err, "The database cannot be reached right now.")
	case isRetryable(err), sqlState(err) == lockNotAvailable:
		return unavailable(err, "The database is too busy with conflicting work; try again.")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fault.From(err)
	}
	return err
}

// IsUnique reports whether err is a violation of the unique constraint or index with that name; an empty name means
// any.
func IsUnique(err error, constraint string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == uniqueViolation && (constraint == "" || pg.ConstraintName == constraint)
}

// sqlState returns the SQLSTATE of the server's answer, or "".
func sqlState(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

func isRetryable(err error) bool {
	state := sqlState(err)
	return state == serializationFailure || state == deadlockDetected
}

// isUnavailable reports whether err is caused by the database and not by the statement.
func isUnavailable(err error) bool {
	if state := sqlState(err); state != "" {
		return stateMeansAway(state)
	}
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) {
		// A cancellation by the caller does not mean that the server is unavailable; a timeout while connecting does.
		return !errors.Is(err, context.Canceled)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var netErr net.Error
	return errors.As(err, &netErr) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) ||
		errors.Is(err, pgconn.ErrConnClosed) || isClosedPool(err)
}

// isClosedPool recognises the error of a closed pool by its text, because its variable is in an internal package of
// pgx.
func isClosedPool(err error) bool { return strings.HasSuffix(err.Error(), "closed pool") }

// stateMeansAway reports whether a SQLSTATE means that the database is unavailable: connection errors, missing
// resources, an operator's intervention, refused logins, and a server that has become a read-only standby. 57014 is the
// caller's own cancelled statement.
func stateMeansAway(state string) bool {
	switch {
	case state == "57014":
		return false
	case state == readOnlyTransaction:
		return true
	}
	for _, class := range []string{"08", "28", "3D", "53", "57", "58"} {
		if strings.HasPrefix(state, class) {
			return true
		}
	}
	return false
}
