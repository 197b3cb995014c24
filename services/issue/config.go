package issue

import (
	"time"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/config"
)

// Config is [services.issue].
type Config struct {
	// DatabaseConns is how many connections to the database there are at most.
	DatabaseConns int `toml:"database_conns"`
	// DatabaseStall is the longest silence of the database: after it waiting requests fail, and new ones are refused
	// until it answers.
	DatabaseStall config.Duration `toml:"database_stall"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{DatabaseConns: 4, DatabaseStall: config.Duration(5 * time.Second)}
}

// Validate fails with bad_request for a value without a meaning.
func (c Config) Validate() error {
	return check.Positive(
		check.Setting{Key: "database_conns", Value: int64(c.DatabaseConns)},
		check.Setting{Key: "database_stall", Value: int64(c.DatabaseStall)},
	)
}
