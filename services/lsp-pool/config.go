package lsppool

import (
	"reflect"
	"time"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/lsp-pool/internal/core"
)

// Config is the table [services.lsp-pool]. Sizes are bytes. Servers themselves are tables [lsp.servers.LANG].
type Config struct {
	// Idle is how long a language server lives after its last question.
	Idle config.Duration `toml:"idle"`
	// Restarts is how often a server that crashes is started again in one session.
	Restarts int `toml:"restarts"`
	// StartTimeout is how long a server may take from its start to the end of its handshake.
	StartTimeout config.Duration `toml:"start_timeout"`
	// QueryTimeout is how long an answer may take; a server that takes longer is ended.
	QueryTimeout config.Duration `toml:"query_timeout"`
	// StopGrace is how long a server may take to end when it is asked to, before it is killed.
	StopGrace config.Duration `toml:"stop_grace"`
	// Wait is how long a question waits for a server that is still loading; it is answered as far as the server is then.
	Wait config.Duration `toml:"wait"`
	// Quiet is how long a server that names no versions must publish no diagnostics of a file until they count as
	// complete.
	Quiet config.Duration `toml:"quiet"`
	// Cage is when the server of an agent without a cage has one: "auto" where an agent of the project has a cage, where
	// the agent itself cannot run commands, and where the program lies in the project; "always", or "never". The server
	// of an agent with a cage always has one.
	Cage string `toml:"cage"`
	// Parallel is how many requests one server gets at once, MaxServers how many servers there may be.
	Parallel   int `toml:"parallel"`
	MaxServers int `toml:"max_servers"`
	// MessageBytes bounds one message of a server; one that sends a longer one is ended.
	MessageBytes int `toml:"message_bytes"`
	// DocumentBytes is the largest file that a server is shown, Documents how many it has open at once.
	DocumentBytes int `toml:"document_bytes"`
	Documents     int `toml:"documents"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Idle: config.Duration(10 * time.Minute), Restarts: 3, StartTimeout: config.Duration(60 * time.Second),
		QueryTimeout: config.Duration(30 * time.Second), StopGrace: config.Duration(time.Second),
		Cage: string(core.CageAuto), Wait: config.Duration(10 * time.Second),
		Quiet: config.Duration(200 * time.Millisecond), Parallel: 4, MaxServers: 64, MessageBytes: 64 << 20,
		DocumentBytes: 8 << 20, Documents: 200,
	}
}

// Validate refuses limits with which no server could work.
func (c Config) Validate() error {
	fields := reflect.ValueOf(c)
	for i := range fields.NumField() {
		if f := fields.Field(i); f.CanInt() && f.Int() <= 0 {
			return fault.New(fault.BadRequest, "services.lsp-pool.%s must be greater than zero.",
				fields.Type().Field(i).Tag.Get("toml"))
		}
	}
	if c.Cage != string(core.CageAuto) && c.Cage != string(core.CageAlways) && c.Cage != string(core.CageNever) {
		return fault.New(fault.BadRequest, "services.lsp-pool.cage must be auto, always or never, not %q.", c.Cage)
	}
	return nil
}
