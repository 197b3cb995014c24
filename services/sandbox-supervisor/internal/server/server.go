// Package server is the gRPC side of the sandbox supervisor: it translates and delegates, one file per RPC.
package server

import (
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
	"kaged.dev/services/sandbox-supervisor/internal/core"
)

// Server implements SandboxService.
type Server struct {
	sandboxsupervisorv1.UnimplementedSandboxServiceServer
	supervisor *core.Supervisor
	socket     string
}

// New returns a server for supervisor. socket is the path of the unix socket at which callers of other processes take
// shared files, "" for none.
func New(supervisor *core.Supervisor, socket string) *Server {
	return &Server{supervisor: supervisor, socket: socket}
}
