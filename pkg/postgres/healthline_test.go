package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"kaged.dev/pkg/postgres"
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

// cutIdle closes the pool's connection below it.
func cutIdle(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	err := pool.AcquireFunc(t.Context(), func(c *pgxpool.Conn) error { return c.Conn().PgConn().Conn().Close() })
	if err != nil {
		t.Fatal(err)
	}
}
