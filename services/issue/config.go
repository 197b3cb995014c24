package issue

import (
	"time"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/config"
)

// Config is [services.issue].
type Config struct {
	// DatabaseConns is the maximum number of connections to the database.
	DatabaseConns int `toml:"database_conns"`
	// DatabaseStall is the time without an answer of the database after which waiting requests fail, and new requests are
	// refused until it answers.
	DatabaseStall config.Duration `toml:"database_stall"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{DatabaseConns: 4, DatabaseStall: config.Duration(5 * time.Second)}
}

// Validate fails with bad_request for an invalid value.
func (c Config) Validate() error {
	return check.Positive(
		check.Setting{Key: "database_conns", Value: int64(c.DatabaseConns)},
		check.Setting{Key: "database_stall", Value: int64(c.DatabaseStall)},
	)
}
