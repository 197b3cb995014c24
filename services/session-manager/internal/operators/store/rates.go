package store

import (
	"context"
	"time"

	"kaged.dev/pkg/postgres/database"
)

// Rates stores the remaining tokens of rate limits. It implements rates.Store.
type Rates struct{ db database.DB }

// NewRates returns the rate limits in db.
func NewRates(db database.DB) *Rates { return &Rates{db} }

// Take implements rates.Store.
func (r *Rates) Take(
	ctx context.Context, owner, limit string, wanted, perMinute int,
) (taken int, retry time.Duration, err error) {
	var after int64
	rows, err := r.db.Query(ctx, "select taken, retry_after from take_tokens($1, $2, $3, $4)", owner, limit, wanted,
		perMinute)
	if err != nil {
		return 0, 0, database.Fail(err, "take tokens")
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(&taken, &after); err != nil {
			return 0, 0, database.Fail(err, "take tokens")
		}
	}
	return taken, time.Duration(after) * time.Microsecond, database.Fail(rows.Err(), "take tokens")
}
