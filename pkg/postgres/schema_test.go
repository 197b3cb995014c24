package postgres_test

import (
	"io/fs"
	"testing"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/postgres"
	"kaged.dev/pkg/testkit/pgtest"
)

// After a rollback an older build works with a newer schema if the newer migration is marked as compatible, with and
// without the owner's login; otherwise its start is refused.
func TestRollback(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		newer string
		fits  bool
	}{
		"compatible": {"-- compatible_from: 2\nalter table orders add column more text;", true},
		"not said":   {"alter table orders drop column note;", false},
		"from later": {"-- compatible_from: 3\nalter table orders drop column note;", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			owner, app := pgtest.URLs(t)
			mustOpen(t, postgres.Config{OwnerURL: owner, URL: app})
			if _, err := open(t, postgres.Config{OwnerURL: owner, URL: app}, migrations(c.newer)); err != nil {
				t.Fatal(err)
			}
			for how, cfg := range map[string]postgres.Config{"owner": {OwnerURL: owner, URL: app}, "app": {URL: app}} {
				pool, err := open(t, cfg, migrations())
				if c.fits && err == nil {
					exec(t, pool, "insert into orders (note) values ($1)", how)
					continue
				}
				if c.fits || fault.CodeOf(err) != fault.Conflict {
					t.Errorf("%s: got %v, want it to fit: %t", how, err, c.fits)
				}
			}
		})
	}
}

// A service that does not migrate waits for a schema that is missing or behind, and opens a complete one.
func TestOpenWithoutTheOwner(t *testing.T) {
	t.Parallel()
	owner, app := pgtest.URLs(t)
	without := postgres.Config{URL: app}
	refused := func(m fs.FS, what, words string) {
		t.Helper()
		_, err := open(t, without, m)
		if err == nil {
			t.Errorf("%s: it opens", what)
			return
		}
		wantFault(t, err, fault.Unavailable, words)
	}
	refused(migrations(), "no schema", "has 0 of 2 migrations")
	mustOpen(t, postgres.Config{OwnerURL: owner, URL: app})
	refused(migrations("create table more (id int);"), "a schema behind", "has 2 of 3 migrations")
	if _, err := open(t, without, migrations()); err != nil {
		t.Errorf("a schema that fits: %v", err)
	}
}

// A plan names the pending migrations and runs no migration.
func TestPlan(t *testing.T) {
	t.Parallel()
	owner, app := pgtest.URLs(t)
	cfg := postgres.Config{OwnerURL: owner, URL: app}
	plan := func(m fs.FS, version, pending int) {
		t.Helper()
		p, err := postgres.PlanOf(t.Context(), cfg, m, schema)
		if err != nil || p.Version != version || len(p.Pending) != pending {
			t.Errorf("got %+v, %v, want version %d and %d pending", p, err, version, pending)
		}
	}
	plan(migrations(), 0, 2)
	plan(migrations(), 0, 2)
	mustOpen(t, cfg)
	plan(migrations(), 2, 0)
	plan(migrations("create table more (id int);"), 2, 1)
}
