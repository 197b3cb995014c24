package postgres

import (
	"context"
	"errors"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/tern/v2/migrate"

	"kaged.dev/pkg/fault"
)

// setupLock is the advisory lock for the creation and migration of schemas, so that processes may start at the same
// time. tern takes another lock around each of its own steps.
const setupLock = int64(0x6b61676564) // "kaged"

// migrateAsOwner creates the role, the schema and its tables, on a connection that it closes.
func migrateAsOwner(ctx context.Context, cfg Config, migrations fs.FS, schema, appLogin string) error {
	config, err := ownerConfig(cfg, schema)
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return connectFault(err)
	}
	// Closing releases the lock, so it must happen even if ctx has ended.
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, "select pg_advisory_lock($1)", setupLock); err != nil {
		return Classify(err)
	}
	if err := ensureRole(ctx, conn, config.User, appLogin); err != nil {
		return err
	}
	if err := ensureSchema(ctx, conn, schema); err != nil {
		return err
	}
	if err := runMigrations(ctx, conn, cfg, migrations, schema); err != nil {
		return err
	}
	return protectVersion(ctx, conn, schema)
}

// ensureRole creates a missing AppRole, and lets appLogin switch to it. Roles belong to the whole server, and the
// advisory lock covers only one database: if another process creates the role first, that counts as success.
func ensureRole(ctx context.Context, conn *pgx.Conn, owner, appLogin string) error {
	var exists bool
	if err := conn.QueryRow(ctx, "select exists (select from pg_roles where rolname = $1)", AppRole).
		Scan(&exists); err != nil {
		return Classify(err)
	}
	if !exists {
		_, err := conn.Exec(ctx, "create role "+AppRole+" nologin")
		switch sqlState(err) {
		case duplicateObject, uniqueViolation:
		case insufficientPrivilege:
			return roleRefused(err, owner, appLogin)
		default:
			if err != nil {
				return Classify(err)
			}
		}
	}
	if appLogin == AppRole {
		return nil
	}
	return ensureMember(ctx, conn, owner, appLogin)
}

// ensureMember makes login a member of AppRole. A superuser needs no membership.
func ensureMember(ctx context.Context, conn *pgx.Conn, owner, login string) error {
	var member bool
	err := conn.QueryRow(ctx, `select exists (select from pg_roles where rolname = $1 and rolsuper) or exists (
		select from pg_auth_members m join pg_roles r on r.oid = m.roleid join pg_roles u on u.oid = m.member
		where r.rolname = $2 and u.rolname = $1)`, login, AppRole).Scan(&member)
	if err != nil || member {
		return Classify(err)
	}
	_, err = conn.Exec(ctx, "grant "+AppRole+" to "+pgx.Identifier{login}.Sanitize())
	switch sqlState(err) {
	case uniqueViolation: // Another process created it first.
		return nil
	case insufficientPrivilege, undefinedObject:
		return roleRefused(err, owner, login)
	}
	return Classify(err)
}

func roleRefused(err error, owner, login string) *fault.Error {
	return unavailable(err, "The database user %q may not set up the role %s; as its administrator type: CREATE ROLE "+
		"%s NOLOGIN; GRANT %s TO %s;",
		owner, AppRole, AppRole, AppRole, pgx.Identifier{login}.Sanitize())
}

// ensureSchema creates the schema and gives AppRole its rights on future tables. It does not repeat existing grants,
// which would write at every start.
func ensureSchema(ctx context.Context, conn *pgx.Conn, schema string) error {
	var exists, granted bool
	err := conn.QueryRow(ctx, `select exists (select from pg_namespace where nspname = $1),
		2 = (select count(*) from pg_default_acl d join pg_namespace n on n.oid = d.defaclnamespace
		     where n.nspname = $1 and d.defaclrole = (select oid from pg_roles where rolname = current_user)
		       and d.defaclobjtype in ('r', 'S') and exists (select from aclexplode(d.defaclacl) a
		         where a.grantee = (select oid from pg_roles where rolname = $2)))`,
		schema, AppRole).Scan(&exists, &granted)
	if err != nil {
		return Classify(err)
	}
	if exists && granted {
		return nil
	}
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if !exists {
			if _, err := tx.Exec(ctx, "create schema "+schema); err != nil {
				return refusedOr(err, "The database user may not create the schema %s; as its administrator type: GRANT CREATE "+
					"ON DATABASE %s TO the owner.",
					schema, conn.Config().Database)
			}
		}
		_, err := tx.Exec(ctx, "grant usage on schema "+schema+" to "+AppRole+";"+
			"alter default privileges in schema "+schema+" grant select, insert, update, delete on tables to "+AppRole+";"+
			"alter default privileges in schema "+schema+" grant usage, select on sequences to "+AppRole)
		return refusedOr(err, "The schema %s belongs to another user; connect as its owner.", schema)
	})
}

func refusedOr(err error, format string, args ...any) error {
	if sqlState(err) == insufficientPrivilege {
		return unavailable(err, format, args...)
	}
	return Classify(err)
}

func versionTable(schema string) string { return schema + ".schema_version" }

func runMigrations(ctx context.Context, conn *pgx.Conn, cfg Config, migrations fs.FS, schema string) error {
	m, err := migrate.NewMigrator(ctx, conn, versionTable(schema))
	if err != nil {
		return refusedOr(err, "The schema %s belongs to another user; connect as its owner.", schema)
	}
	if err := m.LoadMigrations(migrations); err != nil {
		return fault.Wrap(err, fault.Internal, "The migrations of the schema %s cannot be read.", schema)
	}
	m.OnStart = func(n int32, name, _, _ string) {
		cfg.Log.InfoContext(ctx, "migrating", "schema", schema, "version", n, "name", name)
	}
	err = m.Migrate(ctx)
	var newer migrate.BadVersionError
	var failed migrate.MigrationPgError
	switch {
	case err == nil:
		return keepCompatibility(ctx, conn, m.Migrations, schema)
	case errors.As(err, &newer):
		now, err := stateOf(ctx, conn, schema)
		if err == nil {
			err = now.fits(schema, len(m.Migrations))
		}
		return err
	case errors.As(err, &failed) && !isUnavailable(err):
		return fault.Wrap(err, fault.Internal, "The migration %s of the schema %s failed and was taken back.",
			failed.MigrationName, schema)
	}
	return Classify(err)
}

// protectVersion prevents services from changing the number of the applied migrations.
func protectVersion(ctx context.Context, conn *pgx.Conn, schema string) error {
	var writable bool
	table := versionTable(schema)
	if err := conn.QueryRow(ctx, "select has_table_privilege($1, $2, 'insert, update, delete')", AppRole, table).
		Scan(&writable); err != nil {
		return Classify(err)
	}
	if !writable {
		return nil
	}
	_, err := conn.Exec(ctx, "revoke insert, update, delete, truncate on "+table+" from "+AppRole)
	return Classify(err)
}
