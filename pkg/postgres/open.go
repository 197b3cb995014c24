package postgres

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/retry"
)

// AppRole is the role of the services.
const AppRole = "kaged_app"

// defaultMaxConns lets several pools share the embedded server's connections.
const defaultMaxConns = 12

// shortIdle is the longest [Config.Idle].
const shortIdle = time.Minute

// connectTimeout limits one connection attempt, so that a host that drops packets causes an error and no hang.
const connectTimeout = 10 * time.Second

// Config is the address and the settings of the database.
type Config struct {
	// OwnerURL connects as the owner of the schema: a postgres:// URL or a key=value string. If it is empty, another
	// process migrates the schema (`kaged migrate`).
	OwnerURL string
	// URL connects as AppRole, or as a login that is or can become its member. Empty means OwnerURL.
	URL string
	// MaxConns limits the pool's connections; 0 means 12.
	MaxConns int32
	// Idle is the time after which the pool ends an unused connection, at most a minute, and at the latest twice as long;
	// 0 keeps connections for pgx's half hour. Keep is the number of connections that are kept nevertheless.
	Idle time.Duration
	Keep int32
	// Log gets one entry for each applied migration; nil discards them.
	Log *slog.Logger
	// Health is informed of the failures of the pool's statements; it may be nil.
	Health *Health
}

// tern's SQL contains the schema's name without quotes.
var plainName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// Open migrates schema and returns a pool that works in it as [AppRole], with schema as its search path. migrations
// holds files named 001_name.sql and so on (package tern); each runs in its own transaction. Processes that open at the
// same time wait for each other.
//
// Without an OwnerURL no migration runs, and a schema that lacks migrations is unavailable.
//
// It returns fault.Unavailable (details.subsystem "storage") if the database cannot be reached or the owner may not
// create or grant AppRole, fault.Conflict if the schema is newer than migrations and not marked as compatible with
// older builds (compatible_from of schema_version), and fault.Internal if a migration fails. The caller closes the
// pool.
func Open(ctx context.Context, cfg Config, migrations fs.FS, schema string) (*pgxpool.Pool, error) {
	if !plainName.MatchString(schema) {
		return nil, fault.New(fault.Internal, "The schema name %q is not a plain lower-case name.", schema)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	app, err := poolConfig(cfg, schema)
	if err != nil {
		return nil, err
	}
	if cfg.OwnerURL != "" {
		if err := migrateAsOwner(ctx, cfg, migrations, schema, app.ConnConfig.User); err != nil {
			return nil, err
		}
	}
	pool, err := pgxpool.NewWithConfig(ctx, app)
	if err != nil {
		return nil, connectFault(err)
	}
	if cfg.OwnerURL == "" {
		err = checkSchema(ctx, pool, migrations, schema)
	}
	if err == nil {
		err = checkRole(ctx, pool, schema)
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// pauses are the pauses between attempts while the database is unreachable.
var pauses = retry.Pauses{First: 50 * time.Millisecond, Last: 2 * time.Second}

// Retry calls f until it succeeds, fails other than with fault.Unavailable, or ctx ends. It logs each failure that it
// repeats.
func Retry(ctx context.Context, log *slog.Logger, f func() error) error {
	var err error
	for range pauses.Each(ctx) {
		if err = f(); !errors.Is(err, fault.Unavailable) || ctx.Err() != nil {
			break
		}
		log.Warn("waiting for the database", "error", err)
	}
	return err
}

// Await is Open that waits for an unreachable database. It returns nil without an error if ctx ends first.
func Await(ctx context.Context, cfg Config, migrations fs.FS, schema string) (pool *pgxpool.Pool, err error) {
	err = Retry(ctx, cmp.Or(cfg.Log, slog.New(slog.DiscardHandler)), func() (err error) {
		pool, err = Open(ctx, cfg, migrations, schema)
		return err
	})
	if ctx.Err() != nil && pool == nil {
		return nil, nil
	}
	return pool, err
}

// poolConfig builds the configuration of the services' pool.
func poolConfig(cfg Config, schema string) (*pgxpool.Config, error) {
	url := cfg.URL
	if url == "" {
		url = cfg.OwnerURL
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, badURL()
	}
	config.MaxConns = defaultMaxConns
	if cfg.MaxConns > 0 {
		config.MaxConns = cfg.MaxConns
	}
	config.MinConns = cfg.Keep
	if cfg.Idle > 0 {
		config.MaxConnIdleTime = min(cfg.Idle, shortIdle)
		config.HealthCheckPeriod = config.MaxConnIdleTime
	}
	config.PingTimeout = connectTimeout
	config.ShouldPing = func(_ context.Context, p pgxpool.ShouldPingParams) bool { return suspect(p.Conn, p.IdleDuration) }
	prepareConn(config.ConnConfig, schema)
	config.AfterConnect = compressByLZ4
	if cfg.Health != nil {
		config.ConnConfig.Tracer = cfg.Health
	}
	if config.ConnConfig.User != AppRole {
		// A startup parameter is also the role to which RESET ROLE returns.
		config.ConnConfig.RuntimeParams["role"] = AppRole
	}
	return config, nil
}

// compressByLZ4 makes a connection store long values by LZ4, which takes a tenth of the default's time. A server
// without LZ4 refuses it and keeps its default; as a startup parameter that refusal would end the connection.
func compressByLZ4(ctx context.Context, conn *pgx.Conn) error {
	err := conn.PgConn().Exec(ctx, "set default_toast_compression = 'lz4'").Close()
	if state := sqlState(err); state == invalidParameter || state == undefinedObject {
		return nil
	}
	return err
}

// ownerConfig builds the configuration of the migrating connection.
func ownerConfig(cfg Config, schema string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(cfg.OwnerURL)
	if err != nil {
		return nil, badURL()
	}
	prepareConn(config, schema)
	return config, nil
}

func prepareConn(config *pgx.ConnConfig, schema string) {
	config.RuntimeParams["search_path"] = schema
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "kaged " + schema
	}
	if config.ConnectTimeout <= 0 || config.ConnectTimeout > connectTimeout {
		config.ConnectTimeout = connectTimeout
	}
}

// badURL omits the cause, because a parser's error may contain a password.
func badURL() *fault.Error {
	return unavailable(nil, "The database URL is not one that PostgreSQL understands; it looks like "+
		"postgres://user:password@host/database.")
}

// connectFault returns the reason of a failed first connection, if the server gives one.
func connectFault(err error) error {
	switch state := sqlState(err); {
	case strings.HasPrefix(state, "28"):
		return unavailable(err, "The database refused the user or the password of its URL.")
	case state == unknownDatabase:
		return unavailable(err, "The database of the URL does not exist.")
	}
	return Classify(err)
}

// checkRole checks the pool's role and schema, because a proxy may silently drop the startup parameters.
func checkRole(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	var role, path string
	err := pool.QueryRow(ctx, "select current_user, current_schema()").Scan(&role, &path)
	switch {
	case sqlState(err) == insufficientPrivilege || sqlState(err) == invalidParameter:
		return unavailable(err, "The database user cannot take on the role %s; as its administrator type: GRANT %s TO the "+
			"user of the database URL.", AppRole, AppRole)
	case err != nil:
		return connectFault(err)
	case role != AppRole || path != schema:
		return unavailable(nil, "The database connection works as %q in schema %q instead of %q in %q; a proxy may have "+
			"dropped its startup parameters.",
			role, path, AppRole, schema)
	}
	return nil
}
