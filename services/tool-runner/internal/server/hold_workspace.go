package server

import (
	"google.golang.org/grpc"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// HoldWorkspace registers a process that runs agents until the stream ends.
func (s *Server) HoldWorkspace(
	_ *toolrunnerv1.HoldWorkspaceRequest, stream grpc.ServerStreamingServer[toolrunnerv1.HoldWorkspaceEvent],
) error {
	return s.runner.HoldWorkspace(stream.Context(), func() error {
		return stream.Send(&toolrunnerv1.HoldWorkspaceEvent{})
	})
}
