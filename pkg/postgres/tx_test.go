package postgres_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/postgres"
	"kaged.dev/pkg/testkit/pgtest"
)

func count(t *testing.T, pool *pgxpool.Pool) (n int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), "select count(*) from orders").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// A transaction is applied completely or not at all, also if its function fails or panics.
func TestInTxIsAllOrNothing(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t, migrations(), schema)
	insert := func(tx pgx.Tx, note string) error {
		_, err := tx.Exec(t.Context(), "insert into orders (note) values ($1)", note)
		return err
	}
	if err := postgres.InTx(t.Context(), pool, func(tx pgx.Tx) error { return insert(tx, "a") }); err != nil {
		t.Fatal(err)
	}
	mine := fault.New(fault.NotFound, "not here")
	err := postgres.InTx(t.Context(), pool, func(tx pgx.Tx) error { return errors.Join(insert(tx, "b"), mine) })
	if !errors.Is(err, fault.NotFound) {
		t.Errorf("got %v, want the function's own error", err)
	}
	func() {
		defer func() { _ = recover() }()
		_ = postgres.InTx(t.Context(), pool, func(tx pgx.Tx) error { _ = insert(tx, "c"); panic("bug") })
	}()
	if n := count(t, pool); n != 1 {
		t.Errorf("%d rows are there, want 1", n)
	}
	if s := pool.Stat(); s.AcquiredConns() != 0 {
		t.Errorf("%d connections were not given back", s.AcquiredConns())
	}
	err = postgres.InTx(t.Context(), pool, func(tx pgx.Tx) error { return insert(tx, "a") })
	if !postgres.IsUnique(err, "orders_note") || !postgres.IsUnique(err, "") || postgres.IsUnique(err, "other") {
		t.Errorf("%v is not known as a violation of orders_note", err)
	}
}

// Two conflicting transactions are serialised.
func TestInTxRepeatsWhatConflicts(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t, migrations(), schema)
	exec(t, pool, "insert into orders (note) values ('0')")
	attempts := 0
	err := postgres.InTx(t.Context(), pool, func(tx pgx.Tx) error {
		attempts++
		if _, err := tx.Exec(t.Context(), "set transaction isolation level repeatable read"); err != nil {
			return err
		}
		var note string
		if err := tx.QueryRow(t.Context(), "select note from orders").Scan(&note); err != nil {
			return err
		}
		if attempts == 1 {
			exec(t, pool, "update orders set note = '1'")
		}
		_, err := tx.Exec(t.Context(), "update orders set note = $1 || '+'", note)
		return err
	})
	var note string
	_ = pool.QueryRow(t.Context(), "select note from orders").Scan(&note)
	if err != nil || attempts != 2 || note != "1+" {
		t.Errorf("after %d attempts the note is %q (%v), want 1+ after 2", attempts, note, err)
	}
	always := 0
	err = postgres.InTx(t.Context(), pool, func(tx pgx.Tx) error {
		always++
		_, err := tx.Exec(t.Context(), "do $$ begin raise exception 'again' using errcode = '40P01'; end $$")
		return err
	})
	wantFault(t, err, fault.Unavailable, "conflicting")
	if always < 3 || always > 10 {
		t.Errorf("it was tried %d times, want a few", always)
	}
}

// A change whose outcome is unknown is never reported as failed.
func TestALostCommitIsUnknown(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t, migrations(), schema)
	err := postgres.InTx(t.Context(), pool, func(tx pgx.Tx) error {
		exec(t, pool, "select pg_terminate_backend($1)", tx.Conn().PgConn().PID())
		return nil
	})
	if f := wantFault(t, err, fault.Unavailable); f.Details[fault.CommitUnknown] != true {
		t.Errorf("details are %v", f.Details)
	}
}

// An ended context of the caller is reported as its own reason.
func TestClassifyKeepsTheCallersReason(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t, migrations(), schema)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := postgres.InTx(ctx, pool, func(pgx.Tx) error { return nil })
	wantFault(t, err, fault.Cancelled)
	if err := postgres.Classify(pgx.ErrNoRows); !errors.Is(err, pgx.ErrNoRows) || fault.CodeOf(err) != fault.Internal {
		t.Errorf("no rows became %v", err)
	}
	if postgres.Classify(nil) != nil {
		t.Error("nil became an error")
	}
	pool.Close()
	wantFault(t, postgres.Ping(t.Context(), pool), fault.Unavailable)
}

func BenchmarkCommit(b *testing.B) {
	pool := pgtest.New(b, migrations(), schema)
	for b.Loop() {
		err := postgres.InTx(b.Context(), pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(b.Context(), "insert into audit values ($1)", "a line")
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}
