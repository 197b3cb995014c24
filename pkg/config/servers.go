package config

// LSP lists the language servers.
type LSP struct {
	// Servers are the operator's language servers, by language.
	Servers map[string]LSPServer `toml:"servers"`
}

// LSPServer is the table [lsp.servers.LANG]: the language server of a language, instead of kaged's default.
type LSPServer struct {
	// Command is the program and its arguments; an empty list means kaged's default.
	Command []string `toml:"command"`
	// Extensions are the extensions of the language's files, such as ".zig"; an empty list means kaged's default.
	Extensions []string `toml:"extensions"`
	// Settings are sent to the server as its configuration and as its start options, instead of kaged's default.
	Settings map[string]any `toml:"settings"`
	// Env are additional environment variables of the server.
	Env map[string]string `toml:"env"`
	// Read are paths outside the project that the server may read in its cage, such as a folder of modules.
	Read []string `toml:"read"`
	// Memory limits the memory of the server's cage in bytes, 4 GiB by default.
	Memory int64 `toml:"memory"`
}

// DAP lists the debug adapters.
type DAP struct {
	// Adapters are the operator's debug adapters, by runtime.
	Adapters map[string]DAPAdapter `toml:"adapters"`
}

// DAPAdapter is the table [dap.adapters.RUNTIME]: the debug adapter of a runtime, instead of kaged's default.
type DAPAdapter struct {
	// Command is the program and its arguments.
	Command []string `toml:"command"`
	// Announces is the text that the adapter prints before its listen address, such as "listening at "; empty for an
	// adapter that speaks over its standard input and output.
	Announces string `toml:"announces"`
	// Type is the value of type in the adapter's requests, such as "pwa-node"; the runtime's name by default.
	Type string `toml:"type"`
	// Traces is true if the adapter traces processes, for which a cage needs seccomp: relaxed. The default is true, except
	// for runtimes that kaged knows to debug without tracing.
	Traces *bool `toml:"traces"`
	// Launch and Attach are additional arguments of the requests that begin a debug session.
	Launch map[string]any `toml:"launch"`
	Attach map[string]any `toml:"attach"`
}
