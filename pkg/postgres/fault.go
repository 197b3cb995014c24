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

// SQLSTATEs with a rule here.
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

// Classify gives an error of pgx its fault. The database being away, starting, stopping, full,
// read-only or out of connections becomes fault.Unavailable with details.subsystem "storage"; a
// serialization failure or deadlock that was not retried, and a lock that did not come in time,
// become the same with a sentence of their own; an ended context becomes fault.Cancelled or
// fault.DeadlineExceeded. A *fault.Error and every other error (pgx.ErrNoRows, a violated
// constraint, wrong SQL) are returned unchanged. Causes stay in the chain. Classify(nil) is nil.
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

// IsUnique reports whether err is a violation of the unique constraint or index of that name; an empty name means any.
func IsUnique(err error, constraint string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == uniqueViolation && (constraint == "" || pg.ConstraintName == constraint)
}

// sqlState returns the SQLSTATE the server answered with, or "".
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

// isUnavailable reports whether the database, and not the statement, is the reason of err.
func isUnavailable(err error) bool {
	if state := sqlState(err); state != "" {
		return stateMeansAway(state)
	}
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) {
		// A caller that gives up does not accuse the server; a deadline met while connecting does.
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

// isClosedPool knows the error of a closed pool by its text, because the package that declares it is pgx's own
// business.
func isClosedPool(err error) bool { return strings.HasSuffix(err.Error(), "closed pool") }

// stateMeansAway tells the classes of connection trouble, missing resources and an operator's intervention, as well as
// refused logins and a server that has become a read-only standby. 57014 is the caller's own cancelled statement.
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
