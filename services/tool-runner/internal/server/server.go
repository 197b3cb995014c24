// Package server is the gRPC server of tool-runner. It converts messages to the types of core and back. Each RPC has a
// file; only convert.go uses both kinds of types.
package server

import (
	"context"
	"sync"

	"kaged.dev/services/tool-runner/internal/core"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// Server serves ToolRunnerService.
type Server struct {
	toolrunnerv1.UnimplementedToolRunnerServiceServer
	runner  *core.Runner
	machine Machine
	// listing returns the catalogue as messages. They are made once, at the first request, because a command that calls
	// one tool does not need them.
	listing func() ([]*toolrunnerv1.Tool, error)
}

// Machine examines the workspace's machine. If a part does not answer, the answer has that fact.
type Machine interface {
	Examine(context.Context) (*commonv1.CageReport, []*commonv1.LanguageServerReport, []*commonv1.MachineCheck)
}

// New returns a server of runner.
func New(runner *core.Runner, machine Machine) *Server {
	return &Server{runner: runner, machine: machine, listing: sync.OnceValues(func() ([]*toolrunnerv1.Tool, error) {
		return catalogueToProto(runner.Catalogue())
	})}
}
