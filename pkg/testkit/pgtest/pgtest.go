package pgtest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"kaged.dev/pkg/postgres"
)

// Name prefixes of databases: of tests, and of migrated templates.
const (
	testPrefix     = "test_"
	templatePrefix = "template_"
)

// keepTemplates is the number of templates that a slot keeps from earlier runs.
const keepTemplates = 8

// New returns a pool on a new, migrated database with the services' role (see package postgres). The pool is closed and
// the database dropped when the test ends.
func New(t testing.TB, migrations fs.FS, schema string) *pgxpool.Pool {
	t.Helper()
	owner, app := Migrated(t, Schema{schema, migrations})
	pool, err := postgres.Open(t.Context(), postgres.Config{OwnerURL: owner, URL: app}, migrations, schema)
	if err != nil {
		t.Fatalf("opening the test's database: %v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// URLs returns the owner's and the services' URL of a new, empty database. It is dropped when the test ends; open
// connections are cut.
func URLs(t testing.TB) (owner, app string) {
	t.Helper()
	return newDatabase(t, mustServer(t), "template1")
}

// Schema is a schema of Postgres and its migrations, as a module has it.
type Schema struct {
	Name  string
	Files fs.FS
}

// Migrated returns the owner's and the services' URL of a new database with migrated, empty schemas. It is a copy of
// a template, which costs a small part of the migrations' time. It is dropped when the test ends; open connections
// are cut.
func Migrated(t testing.TB, schemas ...Schema) (owner, app string) {
	t.Helper()
	server := mustServer(t)
	return newDatabase(t, server, mustTemplate(t, server, schemas))
}

func mustServer(t testing.TB) answer {
	t.Helper()
	server, err := shared()
	if err != nil {
		t.Fatalf("starting PostgreSQL for tests: %v", err)
	}
	return server
}

func newDatabase(t testing.TB, server answer, template string) (owner, app string) {
	t.Helper()
	b := make([]byte, 6)
	_, _ = rand.Read(b)
	name := testPrefix + hex.EncodeToString(b)
	if err := admin(t.Context(), server.OwnerURL, "create database "+name+" template "+template); err != nil {
		t.Fatalf("making a test database: %v", err)
	}
	t.Cleanup(func() {
		// The test's context has ended by now.
		if err := admin(context.WithoutCancel(t.Context()), server.OwnerURL,
			"drop database "+name+" with (force)"); err != nil {
			t.Errorf("dropping a test database: %v", err)
		}
	})
	return withDatabase(server.OwnerURL, name), withDatabase(server.AppURL, name)
}

// templates are the templates that this process has made or found, each made once.
var templates struct {
	sync.Mutex
	made map[string]bool
}

// mustTemplate returns the database with the migrated, empty schemas.
func mustTemplate(t testing.TB, server answer, schemas []Schema) string {
	t.Helper()
	name := templatePrefix + contentHash(t, schemas)
	templates.Lock()
	defer templates.Unlock()
	if templates.made[name] {
		return name
	}
	if err := makeTemplate(t.Context(), server, schemas, name); err != nil {
		t.Fatalf("migrating a template database: %v", err)
	}
	if templates.made == nil {
		templates.made = map[string]bool{}
	}
	templates.made[name] = true
	return name
}

// makeTemplate migrates a database under another name and renames it when complete.
func makeTemplate(ctx context.Context, server answer, schemas []Schema, name string) error {
	conn, err := pgx.Connect(ctx, server.OwnerURL)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var exists bool
	if err := conn.QueryRow(ctx, "select exists (select from pg_database where datname = $1)", name).
		Scan(&exists); err != nil ||
		exists {
		return err
	}
	unfinished := testPrefix + name
	if _, err := conn.Exec(ctx, "create database "+unfinished); err != nil {
		return err
	}
	for _, s := range schemas {
		pool, err := postgres.Open(ctx, postgres.Config{
			OwnerURL: withDatabase(server.OwnerURL, unfinished), URL: withDatabase(server.AppURL, unfinished),
		}, s.Files, s.Name)
		if err != nil {
			_, _ = conn.Exec(ctx, "drop database "+unfinished+" with (force)")
			return err
		}
		pool.Close()
	}
	_, err = conn.Exec(ctx, "alter database "+unfinished+" rename to "+name)
	return err
}

// contentHash identifies schemas by the contents of their migrations.
func contentHash(t testing.TB, schemas []Schema) string {
	t.Helper()
	h := sha256.New()
	for _, s := range schemas {
		h.Write([]byte(s.Name + "\x00"))
		err := fs.WalkDir(s.Files, ".", func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := fs.ReadFile(s.Files, path)
			h.Write([]byte(path + "\x00"))
			h.Write(text)
			h.Write([]byte{0})
			return err
		})
		if err != nil {
			t.Fatalf("reading migrations: %v", err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// tidy drops leftovers of earlier runs: databases of interrupted tests, and all templates except the newest.
func tidy(ctx context.Context, ownerURL string) error {
	conn, err := pgx.Connect(ctx, ownerURL)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	rows, _ := conn.Query(ctx, `select datname from pg_database where starts_with(datname, $1)
		union all (select datname from pg_database where starts_with(datname, $2) order by oid desc offset $3)`, testPrefix,
		templatePrefix, keepTemplates)
	old, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, name := range old {
		if _, err := conn.Exec(ctx, "drop database "+pgx.Identifier{name}.Sanitize()+" with (force)"); err != nil {
			return err
		}
	}
	return nil
}

func admin(ctx context.Context, ownerURL, sql string) error {
	conn, err := pgx.Connect(ctx, ownerURL)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql)
	return err
}

func withDatabase(server, name string) string {
	u, err := url.Parse(server)
	if err != nil {
		return server
	}
	u.Path = "/" + strings.TrimPrefix(name, "/")
	return u.String()
}
