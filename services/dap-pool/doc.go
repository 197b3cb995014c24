// Package dappool is the service that runs debug adapters where a project's files are, and debugs programs with
// them for other services.
//
// A request comes in over gRPC (internal/server). The pool (internal/core) keeps the sessions of agents: which
// adapter runs, the state of its program, which breakpoints are wanted. It speaks to adapters in their protocol
// (internal/dap), is itself the adapter of runtimes with an inspector (internal/inspector), and starts both through
// sandbox-supervisor (internal/adapter/sandbox), in the agent's own cage: one Exec stream per adapter, so that
// adapter and program end with this process, however that ends.
//
// Goroutines: per session those of its connection, of its streams and of its adapter's output.
package dappool
