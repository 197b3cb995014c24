package operators

import (
	"time"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/config"
)

// Config has the keys of [services.session-manager] for operators. Sizes are bytes.
type Config struct {
	// RotateSecrets invalidates the cookies and CSRF tokens of the previous run at each start. Without the key, the daemon
	// rotates them if its NATS is embedded. A session-manager that shares its stores with others does not, because the
	// restart of one replica would sign everyone out.
	RotateSecrets bool `toml:"rotate_secrets"`
	// LaunchTokenTTL is the validity of an unused launch token.
	LaunchTokenTTL config.Duration `toml:"launch_token_ttl"`
	// MaxScript is the maximum size of a script of the rehearsal driver.
	MaxScript int64 `toml:"max_script"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		LaunchTokenTTL: config.Duration(24 * time.Hour),
		MaxScript:      1 << 20,
	}
}

// Validate fails with bad_request for an invalid value.
func (c Config) Validate() error {
	return check.Positive(
		check.Setting{Key: "launch_token_ttl", Value: int64(c.LaunchTokenTTL)},
		check.Setting{Key: "max_script", Value: c.MaxScript},
	)
}
