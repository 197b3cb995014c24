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
}

// New returns a server for supervisor.
func New(supervisor *core.Supervisor) *Server { return &Server{supervisor: supervisor} }
