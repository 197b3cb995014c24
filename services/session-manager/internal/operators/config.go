package operators

import (
	"time"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/config"
)

// Config is the keys of [services.session-manager] that are about operators. Sizes are bytes.
type Config struct {
	// RotateSecrets makes cookies and CSRF tokens of the run before worthless at each start. Without the key, the
	// daemon rotates them if its NATS is embedded, and a session-manager that shares its stores with others does not: a
	// restart of one replica would sign everyone out.
	RotateSecrets bool `toml:"rotate_secrets"`
	// LaunchTokenTTL is how long an unused launch token is good for.
	LaunchTokenTTL config.Duration `toml:"launch_token_ttl"`
	// MaxScript is the largest script of the rehearsal driver.
	MaxScript int64 `toml:"max_script"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		LaunchTokenTTL: config.Duration(24 * time.Hour),
		MaxScript:      1 << 20,
	}
}

// Validate fails with bad_request for a value without a meaning.
func (c Config) Validate() error {
	return check.Positive(
		check.Setting{Key: "launch_token_ttl", Value: int64(c.LaunchTokenTTL)},
		check.Setting{Key: "max_script", Value: c.MaxScript},
	)
}
