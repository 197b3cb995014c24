package postgres

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/tern/v2/migrate"

	"kaged.dev/pkg/fault"
)

// compatiblePrefix begins the line of a migration that gives the builds that work with its schema: those that know at
// least that many migrations. A migration without the line works only with builds that have it.
const compatiblePrefix = "-- compatible_from: "

// Plan is the pending work of [Migrate].
type Plan struct {
	// Schema is the schema's name, Version the number of applied migrations.
	Schema  string
	Version int
	// Pending are the names of the pending migrations, in order.
	Pending []string
}

// PlanOf returns the work that [Migrate] would do. It fails as [Open] does.
func PlanOf(ctx context.Context, cfg Config, migrations fs.FS, schema string) (Plan, error) {
	list, err := load(migrations, schema)
	if err != nil {
		return Plan{}, err
	}
	config, err := ownerConfig(cfg, schema)
	if err != nil {
		return Plan{}, err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return Plan{}, connectFault(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	state, err := stateOf(ctx, conn, schema)
	if err != nil {
		return Plan{}, err
	}
	plan := Plan{Schema: schema, Version: state.version}
	if state.version > len(list) {
		return plan, state.fits(schema, len(list))
	}
	for _, m := range list[state.version:] {
		plan.Pending = append(plan.Pending, m.Name)
	}
	return plan, nil
}

// Migrate applies the migrations of schema, as [Open] does with an OwnerURL, and opens no pool. It fails as [Open]
// does.
func Migrate(ctx context.Context, cfg Config, migrations fs.FS, schema string) error {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	app, err := poolConfig(cfg, schema)
	if err != nil {
		return err
	}
	return migrateAsOwner(ctx, cfg, migrations, schema, app.ConnConfig.User)
}

// state is the version of a schema in a database.
type state struct{ version, compatibleFrom int }

type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// stateOf reads the version. A missing schema has version 0; a schema from before compatible_from works only with its
// own version.
func stateOf(ctx context.Context, q querier, schema string) (state, error) {
	var there, kept bool
	err := q.QueryRow(ctx, `select to_regclass($1) is not null, exists (select from pg_attribute
		where attrelid = to_regclass($1) and attname = 'compatible_from' and not attisdropped)`,
		versionTable(schema)).Scan(&there, &kept)
	if err != nil || !there {
		return state{}, Classify(err)
	}
	column := "version"
	if kept {
		column = "coalesce(compatible_from, version)"
	}
	var s state
	err = q.QueryRow(ctx, "select version, "+column+" from "+versionTable(schema)).Scan(&s.version, &s.compatibleFrom)
	if errors.Is(err, pgx.ErrNoRows) {
		return state{}, nil
	}
	return s, Classify(err)
}

// fits fails unless a build that knows the given number of migrations works with the schema: with unavailable if the
// schema is behind, with conflict if it is ahead and incompatible.
func (s state) fits(schema string, known int) error {
	switch {
	case s.version < known:
		return unavailable(nil, "The schema %s has %d of %d migrations; run `kaged migrate`.", schema, s.version, known)
	case s.version > known && s.compatibleFrom > known:
		return fault.New(fault.Conflict, "The schema %s was made by a newer kaged than this one, which knows %d versions "+
			"of it; start the newer one.",
			schema, known).With("subsystem", "storage")
	}
	return nil
}

// checkSchema refuses an incompatible schema, for services that do not migrate.
func checkSchema(ctx context.Context, q querier, migrations fs.FS, schema string) error {
	list, err := load(migrations, schema)
	if err != nil {
		return err
	}
	s, err := stateOf(ctx, q, schema)
	if err != nil {
		return err
	}
	return s.fits(schema, len(list))
}

// load reads migrations without a database.
func load(migrations fs.FS, schema string) ([]*migrate.Migration, error) {
	m := &migrate.Migrator{}
	if err := m.LoadMigrations(migrations); err != nil {
		return nil, fault.Wrap(err, fault.Internal, "The migrations of the schema %s cannot be read.", schema)
	}
	return m.Migrations, nil
}

// compatibleFrom returns the minimum number of migrations that a build must know to work with the schema made by list.
func compatibleFrom(list []*migrate.Migration) (int, error) {
	least := 0
	for i, m := range list {
		own := i + 1
		for lines := bufio.NewScanner(bytes.NewReader([]byte(m.UpSQL))); lines.Scan(); {
			text, says := strings.CutPrefix(lines.Text(), compatiblePrefix)
			if !says {
				continue
			}
			n, err := strconv.Atoi(strings.TrimSpace(text))
			if err != nil || n < 1 || n > i+1 {
				return 0, fmt.Errorf("migration %s: %q is not a number from 1 to %d", m.Name, text, i+1)
			}
			own = n
		}
		least = max(least, own)
	}
	return least, nil
}

// keepCompatibility stores the oldest compatible build of the schema.
func keepCompatibility(ctx context.Context, conn *pgx.Conn, list []*migrate.Migration, schema string) error {
	want, err := compatibleFrom(list)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "The migrations of the schema %s cannot be read.", schema)
	}
	now, err := stateOf(ctx, conn, schema)
	if err != nil || now.version != len(list) || now.compatibleFrom == want {
		return err
	}
	table := versionTable(schema)
	_, err = conn.Exec(ctx, "alter table "+table+" add column if not exists compatible_from int4; update "+table+
		" set compatible_from = "+strconv.Itoa(want))
	return Classify(err)
}
