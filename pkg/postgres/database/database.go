// Package database is the common part of the services' stores: a pool that opens late, faults for Postgres errors, and
// statements sent to the server together.
package database

import (
	"errors"
	"fmt"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/postgres"
)

// Fail converts a Postgres error to a fault: unavailable if Postgres cannot be reached, internal for a defect. Faults
// stay unchanged. what names the action in a few words, for the log.
func Fail(err error, what string) error {
	err = postgres.Classify(err)
	var f *fault.Error
	if err == nil || errors.As(err, &f) {
		return err
	}
	return fault.Wrap(
		fmt.Errorf("%s: %w", what, err),
		fault.Internal,
		"Something went wrong inside kaged; the log has the cause.",
	)
}

// Unreadable is the message about an unreadable part of a row. One such row does not hide the others.
func Unreadable(what string) string {
	return what + " cannot be read from the database. Restore it from a backup, or go on without it."
}
