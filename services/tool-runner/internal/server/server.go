// Package server is tool-runner's gRPC side: messages in, core's types out, and back. One file per RPC; convert.go holds
// the only code that knows both sides.
package server

import (
	"kaged.dev/services/tool-runner/internal/core"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// Server serves ToolRunnerService.
type Server struct {
	toolrunnerv1.UnimplementedToolRunnerServiceServer
	runner  *core.Runner
	listing *toolrunnerv1.ListToolsResponse
}

// New returns a server of runner. It fails if the catalogue cannot be rendered, which is a defect.
func New(runner *core.Runner) (*Server, error) {
	listing, err := catalogueToProto(runner.Catalogue())
	if err != nil {
		return nil, err
	}
	return &Server{runner: runner, listing: listing}, nil
}
