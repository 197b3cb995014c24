package harness

import (
	"time"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm/wire"
)

// Config is [services.harness] in local.toml. Sizes are bytes.
type Config struct {
	// CatalogueTTL is how long the tool runner's catalogue is believed.
	CatalogueTTL config.Duration `toml:"catalogue_ttl"`
	// MaxHistoryBytes is how large a conversation may be.
	MaxHistoryBytes int `toml:"max_history_bytes"`
	// ModelIdle is how long a provider may send nothing, MaxAnswerBytes how large one answer may be.
	ModelIdle      config.Duration `toml:"model_idle"`
	MaxAnswerBytes int             `toml:"max_answer_bytes"`
}

// DefaultConfig returns the specification's values.
func DefaultConfig() Config {
	return Config{
		CatalogueTTL: config.Duration(30 * time.Second), MaxHistoryBytes: 64 << 20,
		ModelIdle: config.Duration(wire.DefaultIdle), MaxAnswerBytes: wire.DefaultMaxAnswer,
	}
}

// Validate refuses limits that would make every run fail.
func (c Config) Validate() error {
	switch {
	case c.CatalogueTTL < 0:
		return fault.New(fault.BadRequest, "services.harness.catalogue_ttl must not be negative.")
	case c.MaxHistoryBytes <= 0:
		return fault.New(fault.BadRequest, "services.harness.max_history_bytes must be greater than zero.")
	case c.ModelIdle <= 0:
		return fault.New(fault.BadRequest, "services.harness.model_idle must be greater than zero.")
	case c.MaxAnswerBytes <= 0:
		return fault.New(fault.BadRequest, "services.harness.max_answer_bytes must be greater than zero.")
	}
	return nil
}
