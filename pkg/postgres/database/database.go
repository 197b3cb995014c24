// Package database is the common part of the services' stores: a pool that opens late, the errors
// of Postgres as faults, and statements that go to the server together.
package database

import (
	"errors"
	"fmt"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/postgres"
)

// Fail turns an error of Postgres into one to show: unavailable while it cannot be reached,
// internal for a defect. Faults stay unchanged. what names the action in a few words, for the log.
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

// Unreadable says that a part of a row cannot be read. One such row never hides the others.
func Unreadable(what string) string {
	return what + " cannot be read from the database. Restore it from a backup, or go on without it."
}
