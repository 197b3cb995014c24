package database_test

import (
	"context"
	"errors"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/postgres/database"
	"kaged.dev/pkg/testkit/pgtest"
)

// Each use of a pool that is not open, or closed again, fails with unavailable; while it is open it works.
func TestPool(t *testing.T) {
	t.Parallel()
	var p database.Pool
	uses := map[string]func(context.Context) error{
		"exec":  func(ctx context.Context) error { _, err := p.Exec(ctx, "select 1"); return err },
		"query": func(ctx context.Context) error { rows, err := p.Query(ctx, "select 1"); closeRows(rows); return err },
		"row":   func(ctx context.Context) error { var n int; return p.QueryRow(ctx, "select 1").Scan(&n) },
		"batch": func(ctx context.Context) error {
			var b pgx.Batch
			b.Queue("select 1")
			return p.SendBatch(ctx, &b).Close()
		},
		"transaction": func(ctx context.Context) error {
			return database.InTx(ctx, &p, func(tx database.DB) error { _, err := tx.Exec(ctx, "select 1"); return err })
		},
	}
	try := func(when string, want error) {
		for name, use := range uses {
			t.Run(when+"/"+name, func(t *testing.T) {
				if err := use(t.Context()); !errors.Is(err, want) {
					t.Errorf("got %v, want %v", err, want)
				}
			})
		}
	}
	try("before", fault.Unavailable)
	p.Open(pgtest.New(t, fstest.MapFS{"001_none.sql": {Data: []byte("select 1;")}}, "pool"))
	try("open", nil)
	p.Close()
	try("closed", fault.Unavailable)
}

func closeRows(rows pgx.Rows) {
	if rows != nil {
		rows.Close()
	}
}
