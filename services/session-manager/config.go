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

// Config is [services.session-manager]: the keys of all contexts stand side by side in that table. Sizes are bytes.
type Config struct {
	// DatabaseConns is how many connections to the database there are at most. Each costs an embedded Postgres 24
	// MB. Four are enough for a hundred sessions that stream, because a step is stored in one round trip; a distant
	// database wants more.
	DatabaseConns int `toml:"database_conns"`
	// DatabaseStall is the longest silence of the database: after it waiting requests fail, and new ones are
	// refused until it answers.
	DatabaseStall config.Duration `toml:"database_stall"`

	Operators
	Sessions
	Projects
	Logs
}

// The keys of the contexts, under the names that they are embedded by.
type (
	// Operators are the keys about operators.
	Operators = operators.Config
	// Sessions are the keys about sessions.
	Sessions = sessions.Config
	// Projects are the keys about projects.
	Projects = projects.Config
	// Logs are the keys about logs of projects.
	Logs = logs.Config
)

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

// Validate fails with bad_request for a value without a meaning.
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
