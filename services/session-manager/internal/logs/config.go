package logs

import "kaged.dev/pkg/check"

// Config is the keys of [services.session-manager] for project logs.
type Config struct {
	// LogDays is the number of days that entries of a project's log are stored, LogEntries the maximum number of
	// entries of a project.
	LogDays    int `toml:"log_days"`
	LogEntries int `toml:"log_entries"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config { return Config{LogDays: 14, LogEntries: 50_000} }

// Validate fails with bad_request for an invalid value.
func (c Config) Validate() error {
	return check.Positive(
		check.Setting{Key: "log_days", Value: int64(c.LogDays)},
		check.Setting{Key: "log_entries", Value: int64(c.LogEntries)},
	)
}
