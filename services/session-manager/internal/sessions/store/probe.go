package store

import (
	"context"
	"crypto/rand"

	"github.com/jackc/pgx/v5"
)

// probeBytes is how much [ProbeWrite] writes: more than a page has room for.
const probeBytes = 64 << 10

// ProbeWrite writes a row as large as a frame, for a transaction that is rolled back. It fails while the database
// has no room.
func ProbeWrite(ctx context.Context, tx pgx.Tx) error {
	payload := make([]byte, probeBytes)
	_, _ = rand.Read(payload) // never fails, and does not compress
	_, err := tx.Exec(ctx, `insert into frame_outbox (session_id, n, channel, kind, msg_id, payload, created_at)
		values ('', 0, '', 'write_probe', '', $1, 0)`, payload)
	return err
}
