package sessionmanager

import (
	"time"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/logs"
	"kaged.dev/services/session-manager/internal/operators"
	"kaged.dev/services/session-manager/internal/projects"
	"kaged.dev/services/session-manager/internal/sessions"
)

// Config is the table [services.session-manager], which has the keys of all contexts. Sizes are bytes.
type Config struct {
	// DatabaseConns is the maximum number of connections to the database. Each uses 31 MB of an embedded Postgres, for
	// which the default is 3 and the last is opened only beside slow statements. That is enough for a hundred streaming
	// sessions, because a step is stored in one round trip; a distant database needs more.
	DatabaseConns int `toml:"database_conns"`
	// DatabaseStall is the longest silence of the database. After it waiting requests fail, and new ones are refused
	// until the database answers.
	DatabaseStall config.Duration `toml:"database_stall"`

	Operators
	Sessions
	Projects
	Logs
}

// The keys of the contexts, named for embedding.
type (
	// Operators are the keys for operators.
	Operators = operators.Config
	// Sessions are the keys for sessions.
	Sessions = sessions.Config
	// Projects are the keys for projects.
	Projects = projects.Config
	// Logs are the keys for project logs.
	Logs = logs.Config
)

// embeddedConns is the default of [Config.DatabaseConns] for an embedded Postgres. With 2, one slow search or list
// would leave a single connection to all runs; the third is opened only then.
const embeddedConns = 3

// sparingIdle is the time after which [Deps.Sparing] ends an unused connection.
const sparingIdle = time.Minute

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		DatabaseConns: 4,
		DatabaseStall: config.Duration(5 * time.Second),
		Operators:     operators.DefaultConfig(),
		Sessions:      sessions.DefaultConfig(),
		Projects:      projects.DefaultConfig(),
		Logs:          logs.DefaultConfig(),
	}
}

// Validate fails with bad_request for an invalid value.
func (c Config) Validate() error {
	if err := check.Positive(
		check.Setting{Key: "database_conns", Value: int64(c.DatabaseConns)},
		check.Setting{Key: "database_stall", Value: int64(c.DatabaseStall)},
	); err != nil {
		return err
	}
	if c.DatabaseConns < 2 {
		return fault.New(fault.BadRequest, "database_conns must be at least 2.")
	}
	for _, part := range []interface{ Validate() error }{c.Operators, c.Sessions, c.Projects, c.Logs} {
		if err := part.Validate(); err != nil {
			return err
		}
	}
	return nil
}
