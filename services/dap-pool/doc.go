// Package dappool is the service that runs debug adapters on the machine with a project's files, and debugs programs
// with them for other services.
//
// A request arrives over gRPC (internal/server). The pool (internal/core) has the sessions of agents: the running
// adapter, the state of its program, the wanted breakpoints. It uses the adapters' protocol (internal/dap), and is
// itself the adapter of runtimes with an inspector (internal/inspector). It starts both through sandbox-supervisor
// (internal/adapter/sandbox), in the agent's own cage, with one Exec stream per adapter, so that adapter and program
// end with this process even after a crash.
//
// Goroutines: per session those of its connection, of its streams and of its adapter's output.
package dappool
