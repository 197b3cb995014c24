package dappool

import (
	"reflect"
	"time"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
)

// Config is the table [services.dap-pool]. Sizes are bytes.
type Config struct {
	// DebugSessions is the maximum number of simultaneous debug sessions of an agent, MaxSessions the maximum number of
	// all sessions.
	DebugSessions int `toml:"debug_sessions"`
	MaxSessions   int `toml:"max_sessions"`
	// StartTimeout is the time that an adapter has to start and to build the program.
	StartTimeout config.Duration `toml:"start_timeout"`
	// RequestTimeout is the time that an adapter has to answer a request.
	RequestTimeout config.Duration `toml:"request_timeout"`
	// StopTimeout is the default time to wait for a stop of the program. After that, the answer has the program as
	// running.
	StopTimeout config.Duration `toml:"stop_timeout"`
	// StopGrace is the time that an adapter has to exit after the request to do so, before it is killed.
	StopGrace config.Duration `toml:"stop_grace"`
	// MessageBytes is the maximum size of a message of an adapter. An adapter that sends a longer one is ended.
	MessageBytes int `toml:"message_bytes"`
	// OutputBytes is the number of bytes kept from the end of a program's output, ShownBytes the maximum number in one
	// answer.
	OutputBytes int `toml:"output_bytes"`
	ShownBytes  int `toml:"shown_bytes"`
	// ValueBytes is the maximum size of a value in an answer, Items the maximum number of entries of a list.
	ValueBytes int `toml:"value_bytes"`
	Items      int `toml:"items"`
	// Breakpoints is the maximum number of breakpoints of a debug session.
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

// Validate refuses limits that no debug session could work with.
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
