// Package server is tool-runner's gRPC side: messages in, core's types out, and back. One file per RPC; convert.go
// holds the only code that knows both sides.
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
	// listing renders the catalogue, once and when it is first asked for: a command that calls one tool does not
	// pay for it.
	listing func() ([]*toolrunnerv1.Tool, error)
}

// Machine looks at the workspace's machine. A silent part is part of the answer.
type Machine interface {
	Examine(context.Context) (*commonv1.CageReport, []*commonv1.LanguageServerReport, []*commonv1.MachineCheck)
}

// New returns a server of runner.
func New(runner *core.Runner, machine Machine) *Server {
	return &Server{runner: runner, machine: machine, listing: sync.OnceValues(func() ([]*toolrunnerv1.Tool, error) {
		return catalogueToProto(runner.Catalogue())
	})}
}
