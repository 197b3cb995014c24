package logs

import "kaged.dev/pkg/check"

// Config is the keys of [services.session-manager] that are about logs of projects.
type Config struct {
	// LogDays is how many days an entry of a project's log is kept, LogEntries how many entries a project keeps.
	LogDays    int `toml:"log_days"`
	LogEntries int `toml:"log_entries"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config { return Config{LogDays: 14, LogEntries: 50_000} }

// Validate fails with bad_request for a value without a meaning.
func (c Config) Validate() error {
	return check.Positive(
		check.Setting{Key: "log_days", Value: int64(c.LogDays)},
		check.Setting{Key: "log_entries", Value: int64(c.LogEntries)},
	)
}
