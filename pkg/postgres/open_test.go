package postgres_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/postgres"
	"kaged.dev/pkg/retry"
	"kaged.dev/pkg/testkit/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const schema = "shop"

// migrations create an ordinary table and an append-only one, as the audit tables of services are.
func migrations(more ...string) fs.FS {
	files := fstest.MapFS{
		"001_orders.sql": {
			Data: []byte(`create table orders (id bigint generated always as identity primary key, note text not null, ` +
				`constraint orders_note unique (note));`),
		},
		"002_audit.sql": {
			Data: []byte("create table audit (note text not null); revoke update, delete, truncate on audit from kaged_app;"),
		},
	}
	for i, sql := range more {
		files["00"+string(rune('3'+i))+"_more.sql"] = &fstest.MapFile{Data: []byte(sql)}
	}
	return files
}

func open(t *testing.T, cfg postgres.Config, m fs.FS) (*pgxpool.Pool, error) {
	t.Helper()
	pool, err := postgres.Open(t.Context(), cfg, m, schema)
	if err == nil {
		t.Cleanup(pool.Close)
	}
	return pool, err
}

func mustOpen(t *testing.T, cfg postgres.Config) *pgxpool.Pool {
	t.Helper()
	pool, err := open(t, cfg, migrations())
	if err != nil {
		t.Fatal(err)
	}
	return pool
}

func exec(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func wantFault(t *testing.T, err error, code fault.Code, words ...string) *fault.Error {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) || f.Code != code {
		t.Fatalf("got %v, want %s", err, code)
	}
	for _, w := range words {
		if !strings.Contains(f.Msg, w) {
			t.Errorf("the message %q does not say %q", f.Msg, w)
		}
	}
	if code == fault.Unavailable && f.Details["subsystem"] != "storage" {
		t.Errorf("details are %v, want subsystem storage", f.Details)
	}
	return f
}

// A service has the rights for its work and no others, with its own login or with the owner's login and the role
// switched.
func TestServicesWorkAsARoleThatOnlyWorks(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"two URLs", "one URL"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			owner, app := pgtest.URLs(t)
			if name == "one URL" {
				app = ""
			}
			pool := mustOpen(t, postgres.Config{OwnerURL: owner, URL: app})
			exec(t, pool, "insert into orders (note) values ('a')")
			exec(t, pool, "update orders set note = 'b'")
			exec(t, pool, "insert into audit values ('a')")
			exec(t, pool, "select note from audit")
			exec(t, pool, "delete from orders")
			for _, sql := range []string{
				"update audit set note = 'b'", "delete from audit", "truncate audit", "truncate orders", "drop table audit",
				"create table more (x int)", "alter table orders add x int", "create schema more",
				"update schema_version set version = 0", "reset role; delete from audit",
			} {
				if _, err := pool.Exec(t.Context(), sql); err == nil {
					t.Errorf("%s was allowed", sql)
				}
			}
		})
	}
}

// Long values are compressed by LZ4 where the server has it.
func TestLongValuesAreCompressedByLZ4(t *testing.T) {
	t.Parallel()
	owner, app := pgtest.URLs(t)
	pool := mustOpen(t, postgres.Config{OwnerURL: owner, URL: app})
	exec(t, pool, "insert into orders (note) values (repeat('much ', 5000))")
	var got, want string
	if err := pool.QueryRow(t.Context(), "select pg_column_compression(note), (select case when 'lz4' = any(enumvals) "+
		"then 'lz4' else 'pglz' end from pg_settings where name = 'default_toast_compression') from orders").
		Scan(&got, &want); err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

// Processes that start at the same time on an empty database all find it migrated, once.
func TestProcessesMayStartAtOnce(t *testing.T) {
	t.Parallel()
	owner, app := pgtest.URLs(t)
	var wg sync.WaitGroup
	for i := range 6 {
		cfg := postgres.Config{OwnerURL: owner, URL: app, MaxConns: 1}
		if i%2 == 1 {
			cfg.URL = ""
		}
		wg.Go(func() {
			pool, err := postgres.Open(t.Context(), cfg, migrations(), schema)
			if err != nil {
				t.Error(err)
				return
			}
			defer pool.Close()
			if _, err := pool.Exec(t.Context(), "insert into audit values ('started')"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	var n, version int
	err := mustOpen(t, postgres.Config{OwnerURL: owner, URL: app}).
		QueryRow(t.Context(), "select (select count(*) from audit), version from schema_version").Scan(&n, &version)
	if err != nil || n != 6 || version != 2 {
		t.Errorf("%d processes worked on version %d (%v), want 6 on 2", n, version, err)
	}
}

// A later kaged migrates an earlier one's database; the earlier one then refuses it.
func TestAnOlderKagedRefusesANewerSchema(t *testing.T) {
	t.Parallel()
	owner, app := pgtest.URLs(t)
	cfg := postgres.Config{OwnerURL: owner, URL: app}
	exec(t, mustOpen(t, cfg), "insert into audit values ('kept')")
	newer, err := open(t, cfg, migrations("alter table audit add extra int not null default 7"))
	if err != nil {
		t.Fatal(err)
	}
	exec(t, newer, "select extra from audit")
	if _, err := newer.Exec(t.Context(), "delete from audit"); err == nil {
		t.Error("migrating gave a right back that a migration had taken")
	}
	_, err = open(t, cfg, migrations())
	wantFault(t, err, fault.Conflict, schema, "newer")
}

// A failed migration is rolled back completely, and the message names it.
func TestAFailedMigrationIsTakenBack(t *testing.T) {
	t.Parallel()
	owner, app := pgtest.URLs(t)
	cfg := postgres.Config{OwnerURL: owner, URL: app}
	_, err := open(t, cfg, migrations("create table half (x int); select no_such_function()"))
	wantFault(t, err, fault.Internal, "003_more.sql", schema)
	pool := mustOpen(t, cfg)
	if _, err := pool.Exec(t.Context(), "select from half"); err == nil {
		t.Error("half of a failed migration is there")
	}
}

// Refused and failed connections give one sentence with the next step, and never a password.
func TestRefusalsSayWhatToDo(t *testing.T) {
	t.Parallel()
	owner, app := pgtest.URLs(t)
	mustOpen(t, postgres.Config{OwnerURL: owner, URL: app})
	weak := weakUser(t, owner)
	for _, c := range []struct {
		name, url string
		words     []string
	}{
		{"no server", "postgres://kaged:secret-word@127.0.0.1:1/kaged", []string{"cannot be reached"}},
		{"no URL", "postgres://kaged:secret-word@[::1/kaged", []string{"postgres://user:password@host/database"}},
		{
			"wrong password", strings.Replace(owner, "kaged_owner:", "kaged_owner:secret-word", 1),
			[]string{"refused the user or the password"},
		},
		{"no database", strings.Replace(owner, "/test_", "/no_such_", 1), []string{"does not exist"}},
		{"no right to make the role", weak, []string{`"weak_`, "CREATE ROLE kaged_app NOLOGIN; GRANT kaged_app TO"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := open(t, postgres.Config{OwnerURL: c.url}, migrations())
			f := wantFault(t, err, fault.Unavailable, c.words...)
			if strings.Contains(f.Error(), "secret-word") {
				t.Errorf("the error shows the password: %v", f)
			}
		})
	}
}

// weakUser creates a login without rights.
func weakUser(t *testing.T, owner string) string {
	t.Helper()
	config, err := pgx.ParseConfig(owner)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	name := "weak_" + config.Database
	if _, err := conn.Exec(t.Context(), "create role "+name+" login password 'weak'"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context()) // the test has ended
		conn, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close(ctx)
		// The owner of the database may not cut the connections of this user, which end a moment after they are closed.
		for range (retry.Pauses{First: time.Millisecond, Last: 20 * time.Millisecond}).Each(ctx) {
			var open int
			err := conn.QueryRow(ctx, "select count(*) from pg_stat_activity where usename = $1", name).Scan(&open)
			if err != nil || open == 0 {
				break
			}
		}
		_, _ = conn.Exec(ctx, "drop role "+name) // it may still have rights
	})
	return strings.Replace(owner, "kaged_owner:"+config.Password, name+":weak", 1)
}

// A login created by the operator is made a member of the services' role.
func TestALoginOfAnotherNameStepsDownToo(t *testing.T) {
	t.Parallel()
	owner, _ := pgtest.URLs(t)
	pool := mustOpen(t, postgres.Config{OwnerURL: owner, URL: weakUser(t, owner)})
	exec(t, pool, "insert into audit values ('a')")
	if _, err := pool.Exec(t.Context(), "delete from audit"); err == nil {
		t.Error("delete was allowed")
	}
}
