package dappool

import (
	"reflect"
	"time"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
)

// Config is the table [services.dap-pool]. Sizes are bytes.
type Config struct {
	// DebugSessions is how many debug sessions an agent may have at once, MaxSessions how many there may be.
	DebugSessions int `toml:"debug_sessions"`
	MaxSessions   int `toml:"max_sessions"`
	// StartTimeout is how long an adapter may take to start and to build the program.
	StartTimeout config.Duration `toml:"start_timeout"`
	// RequestTimeout is how long an adapter may take to answer a request.
	RequestTimeout config.Duration `toml:"request_timeout"`
	// StopTimeout is how long a stop of the program is waited for where the caller does not say; then it is
	// running.
	StopTimeout config.Duration `toml:"stop_timeout"`
	// StopGrace is how long an adapter may take to end when it is asked to, before it is killed.
	StopGrace config.Duration `toml:"stop_grace"`
	// MessageBytes bounds one message of an adapter; one that sends a longer one is ended.
	MessageBytes int `toml:"message_bytes"`
	// OutputBytes is how much of the end of a program's output is kept, ShownBytes how much of it one answer
	// shows.
	OutputBytes int `toml:"output_bytes"`
	ShownBytes  int `toml:"shown_bytes"`
	// ValueBytes bounds one value in an answer, Items the entries of a list in it.
	ValueBytes int `toml:"value_bytes"`
	Items      int `toml:"items"`
	// Breakpoints is how many breakpoints a debug session may have.
	Breakpoints int `toml:"breakpoints"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		DebugSessions: 1, MaxSessions: 64, StartTimeout: config.Duration(2 * time.Minute),
		RequestTimeout: config.Duration(30 * time.Second), StopTimeout: config.Duration(30 * time.Second),
		StopGrace: config.Duration(500 * time.Millisecond), MessageBytes: 8 << 20, OutputBytes: 256 << 10,
		ShownBytes: 16 << 10, ValueBytes: 4 << 10, Items: 1000, Breakpoints: 500,
	}
}

// Validate refuses limits with which no debug session could work.
func (c Config) Validate() error {
	fields := reflect.ValueOf(c)
	for i := range fields.NumField() {
		if f := fields.Field(i); f.CanInt() && f.Int() <= 0 {
			return fault.New(fault.BadRequest, "services.dap-pool.%s must be greater than zero.",
				fields.Type().Field(i).Tag.Get("toml"))
		}
	}
	return nil
}
