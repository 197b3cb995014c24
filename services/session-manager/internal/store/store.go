// Package store keeps session-manager's state in Postgres. It is SQL and the translation of rows: rules are in core.
//
// Each noun has a type of its own that implements what core asks for ([Projects], [Audit], [Operator], ...). They share one
// pool and may be used concurrently. What must be written together is: functions that take a [Querier] join the caller's
// transaction.
package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/postgres"
	"kaged.dev/services/session-manager/internal/store/db"
)

// Querier is a pool, a connection or a transaction.
type Querier = db.DBTX

// probeBytes is how much [ProbeWrite] writes: more than a page has room for.
const probeBytes = 64 << 10

// ProbeWrite writes a row as large as a frame, for a transaction that is rolled back. It fails while the database has no room.
func ProbeWrite(ctx context.Context, tx pgx.Tx) error {
	payload := make([]byte, probeBytes)
	_, _ = rand.Read(payload) // never fails, and does not compress
	_, err := tx.Exec(ctx, `insert into frame_outbox (session_id, n, channel, kind, msg_id, payload, created_at)
		values ('', 0, '', 'write_probe', '', $1, 0)`, payload)
	return err
}

// fail turns an error of Postgres into one to show: unavailable while it cannot be reached, internal for what is a defect.
// Faults stay what they are. what says in a few words what was being done, for the log.
func fail(err error, what string) error {
	err = postgres.Classify(err)
	var f *fault.Error
	if err == nil || errors.As(err, &f) {
		return err
	}
	return fault.Wrap(fmt.Errorf("%s: %w", what, err), fault.Internal, "Something went wrong inside kaged; the log has the cause.")
}
