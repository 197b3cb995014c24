package store

import (
	"context"
	"crypto/rand"

	"github.com/jackc/pgx/v5"
)

// probeBytes is the size of the row that [ProbeWrite] writes: more than fits into one page.
const probeBytes = 64 << 10

// ProbeWrite writes a large row, for a transaction that is rolled back. It fails while the database has no room.
func ProbeWrite(ctx context.Context, tx pgx.Tx) error {
	payload := make([]byte, probeBytes)
	_, _ = rand.Read(payload) // never fails; random bytes do not compress
	_, err := tx.Exec(ctx, `insert into frame_outbox (session_id, n, channel, kind, msg_id, payload, created_at)
		values ('', 0, '', 'write_probe', '', $1, 0)`, payload)
	return err
}
