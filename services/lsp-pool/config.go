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
	// Idle is the time after its last query until a language server is stopped.
	Idle config.Duration `toml:"idle"`
	// Restarts is the maximum number of restarts of a crashing server in one session.
	Restarts int `toml:"restarts"`
	// StartTimeout is the time limit from the start of a server to the end of its handshake.
	StartTimeout config.Duration `toml:"start_timeout"`
	// QueryTimeout is the time limit for an answer. A server that exceeds it is stopped.
	QueryTimeout config.Duration `toml:"query_timeout"`
	// StopGrace is the time that a server has to exit after the request to do so, before it is killed.
	StopGrace config.Duration `toml:"stop_grace"`
	// Wait is the time that a query waits for a server that is still loading. After that, the answer has the results that
	// the server has so far.
	Wait config.Duration `toml:"wait"`
	// Quiet applies to servers that name no versions: diagnostics of a file count as complete after this time without
	// a publication.
	Quiet config.Duration `toml:"quiet"`
	// Cage determines the cage of the server of an agent without a cage. With "auto" the server has a cage if an agent of
	// the project has one, if the agent itself cannot run commands without a question, or if the server's program is in
	// the project; with "always" and "never" it always or never has one. The server of an agent with a cage always has
	// one.
	Cage string `toml:"cage"`
	// Parallel is the maximum number of simultaneous requests to one server, MaxServers the maximum number of servers.
	Parallel   int `toml:"parallel"`
	MaxServers int `toml:"max_servers"`
	// MessageBytes is the maximum size of a message of a server. A server that sends a longer one is stopped.
	MessageBytes int `toml:"message_bytes"`
	// DocumentBytes is the maximum size of a file sent to a server, Documents the maximum number of its open files.
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

// Validate refuses limits that no server could work with.
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
