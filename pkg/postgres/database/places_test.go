package database

import (
	"context"
	"fmt"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"kaged.dev/pkg/testkit/pgtest"
)

// Work waits while all places are taken. Slow work makes place for other work, once: its end admits no more.
func TestSlowWorkLeavesItsPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &places{make(chan struct{}, 2), slowAfter}
		begun := time.Now()
		quick, slow := p.take(t.Context()), p.take(t.Context())
		quick()
		quick()
		next := p.take(t.Context())
		if waited := time.Since(begun); waited != 0 {
			t.Errorf("the next work waited %s for a place that was free", waited)
		}
		next()
		defer p.take(t.Context())()
		last := p.take(t.Context())
		if waited := time.Since(begun); waited != slowAfter {
			t.Errorf("work beside slow work waited %s, want %s", waited, slowAfter)
		}
		synctest.Wait() // for the other work, which has become slow too
		slow()
		if n := len(p.taken); n != 1 {
			t.Errorf("%d places are taken after slow work ended, want that of the last work only", n)
		}
		last()
		if n := len(p.taken); n != 0 {
			t.Errorf("%d places are taken after all work, want none", n)
		}
	})
}

// A sparing pool of three opens two connections for any amount of quick work, and no kind of work keeps its place.
func TestASparingPoolOpensTheLastConnectionForSlowWork(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t, fstest.MapFS{"001_none.sql": {Data: []byte("select 1;")}}, "places")
	var p Pool
	p.OpenSparing(pool)
	if got, want := cap(p.opened.Load().places.taken), int(pool.Config().MaxConns)-1; got != want {
		t.Errorf("got %d places for a pool of %d", got, want+1)
	}
	two := &places{make(chan struct{}, 2), time.Hour} // so that a busy machine makes no work slow
	p.opened.Store(&placed{pool, two})
	work := map[string]func(context.Context) error{
		"exec": func(ctx context.Context) error { _, err := p.Exec(ctx, "select 1"); return err },
		"rows": func(ctx context.Context) error {
			rows, err := p.Query(ctx, "select generate_series(1, 3)")
			if err != nil {
				return err
			}
			_, err = pgx.CollectRows(rows, pgx.RowTo[int])
			return err
		},
		"closed rows": func(ctx context.Context) error {
			rows, err := p.Query(ctx, "select generate_series(1, 3)")
			if err == nil {
				rows.Close()
			}
			return err
		},
		"row": func(ctx context.Context) error { var n int; return p.QueryRow(ctx, "select 1").Scan(&n) },
		"batch": func(ctx context.Context) error {
			var b pgx.Batch
			b.Queue("select 1")
			return p.SendBatch(ctx, &b).Close()
		},
		"commit": func(ctx context.Context) error { return InTx(ctx, &p, func(DB) error { return nil }) },
		"refused": func(ctx context.Context) error {
			if _, err := p.Query(ctx, "select nothing"); err == nil {
				t.Error("a query without a meaning was not refused")
			}
			return nil
		},
	}
	var group errgroup.Group
	for range 20 {
		for name, do := range work {
			group.Go(func() error {
				if err := do(t.Context()); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				return nil
			})
		}
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if n := pool.Stat().TotalConns(); n > 2 {
		t.Errorf("got %d connections, want at most 2", n)
	}
	if n := len(two.taken); n != 0 {
		t.Errorf("%d places are taken after all work, want none", n)
	}
}
