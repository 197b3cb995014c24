package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/postgres"
	"kaged.dev/pkg/testkit/pgtest"
)

// During an outage of Postgres all calls fail with one sentence. Afterwards the first call works, on a pool with many
// dead connections, and no committed data is missing.
func TestAPoolOutlivesItsServer(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	pool := mustOpen(t, postgres.Config{OwnerURL: server.OwnerURL(), URL: server.URL(), MaxConns: 5})
	insert := func(note string) error {
		return postgres.InTx(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), "insert into orders (note) values ($1)", note)
			return err
		})
	}
	for _, end := range []struct {
		name string
		do   func()
	}{{"stopped", server.Stop}, {"killed", server.Kill}} {
		if err := insert(end.name); err != nil {
			t.Fatal(err)
		}
		fillIdle(t, pool)
		end.do()
		wantFault(t, insert("lost"), fault.Unavailable)
		wantFault(t, postgres.Ping(t.Context(), pool), fault.Unavailable)
		server.Start()
		if err := insert(end.name + " and back"); err != nil {
			t.Errorf("after the server was %s and came back: %v", end.name, err)
		}
	}
	if n := count(t, pool); n != 4 {
		t.Errorf("%d rows are there, want 4", n)
	}
}

// A restart of the server between two calls is not noticed by the caller.
func TestADeadConnectionIsNotHandedOut(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	pool := mustOpen(t, postgres.Config{OwnerURL: server.OwnerURL(), URL: server.URL(), MaxConns: 5})
	fillIdle(t, pool)
	server.Stop()
	server.Start()
	if err := postgres.InTx(t.Context(), pool, func(tx pgx.Tx) error { return nil }); err != nil {
		t.Error(err)
	}
	if n := count(t, pool); n != 0 {
		t.Errorf("%d rows, want none", n)
	}
}

// fillIdle fills the pool with its maximum number of connections.
func fillIdle(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	var held []*pgxpool.Conn
	for range pool.Config().MaxConns {
		c, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
	}
	for _, c := range held {
		c.Release()
	}
}
