// Package server is tool-runner's gRPC side: messages in, core's types out, and back. One file per RPC; convert.go holds
// the only code that knows both sides.
package server

import (
	"sync"

	"kaged.dev/services/tool-runner/internal/core"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// Server serves ToolRunnerService.
type Server struct {
	toolrunnerv1.UnimplementedToolRunnerServiceServer
	runner *core.Runner
	// listing renders the catalogue, once and when it is first asked for: a command that calls one tool does not pay for it.
	listing func() ([]*toolrunnerv1.Tool, error)
}

// New returns a server of runner.
func New(runner *core.Runner) *Server {
	return &Server{runner: runner, listing: sync.OnceValues(func() ([]*toolrunnerv1.Tool, error) {
		return catalogueToProto(runner.Catalogue())
	})}
}
