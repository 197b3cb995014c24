package postgres_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"kaged.dev/pkg/postgres"
	"kaged.dev/pkg/retry"
	"kaged.dev/pkg/testkit/pgtest"
)

// The watcher asks on an idle connection of the pool. While the pool is full, or its idle connection is broken, it has
// one of its own.
func TestWatcherSharesThePool(t *testing.T) {
	t.Parallel()
	owner, app := pgtest.URLs(t)
	pool := mustOpen(t, postgres.Config{OwnerURL: owner, URL: app, MaxConns: 1})
	line := postgres.NewLine(pool)
	defer line.Drop()
	ask := func(when string, own bool) {
		t.Helper()
		if err := line.Ask(t.Context()); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		if line.Own() != own {
			t.Errorf("%s: got a connection of its own: %t, want %t", when, !own, own)
		}
		if n := pool.Stat().AcquiredConns(); own != (n == 1) {
			t.Errorf("%s: %d connections are in use", when, n)
		}
	}
	ask("idle", false)
	held, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask("full", true)
	ask("still full", true)
	held.Release()
	ask("idle again", false)
	cutIdle(t, pool)
	if err := line.Ask(t.Context()); err != nil {
		t.Errorf("a broken connection of the pool: %v", err)
	}
}

// A watched pool ends its unused connections, except a number that it keeps, and works again afterwards.
func TestUnusedConnectionsEnd(t *testing.T) {
	t.Parallel()
	owner, app := pgtest.URLs(t)
	for _, keep := range []int32{0, 1} {
		t.Run(fmt.Sprintf("keep%d", keep), func(t *testing.T) {
			t.Parallel()
			health := postgres.NewHealth(slog.New(slog.DiscardHandler), 500*time.Millisecond, nil)
			pool := mustOpen(t, postgres.Config{
				OwnerURL: owner, URL: app, MaxConns: 3, Idle: 200 * time.Millisecond, Keep: keep, Health: health,
			})
			var watch sync.WaitGroup
			defer watch.Wait()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			watch.Go(func() { health.Watch(ctx, pool) })
			fillIdle(t, pool)
			for range (retry.Pauses{First: time.Millisecond, Last: 10 * time.Millisecond}).Each(t.Context()) {
				if pool.Stat().TotalConns() == keep {
					break
				}
			}
			if err := postgres.Ping(t.Context(), pool); err != nil {
				t.Error(err)
			}
		})
	}
}

// cutIdle closes the pool's connection below it.
func cutIdle(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	err := pool.AcquireFunc(t.Context(), func(c *pgxpool.Conn) error { return c.Conn().PgConn().Conn().Close() })
	if err != nil {
		t.Fatal(err)
	}
}
