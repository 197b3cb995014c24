package server

import (
	"google.golang.org/grpc"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// RunTool runs one call and streams its output. The end of the caller's stream cancels the call. If a call is cancelled
// after its tool was called, it has a result, with the records of its effects.
func (s *Server) RunTool(
	req *toolrunnerv1.RunToolRequest,
	stream grpc.ServerStreamingServer[toolrunnerv1.RunToolEvent],
) error {
	outcome, err := s.runner.Run(stream.Context(), callFromProto(req), func(name, text string) error {
		return stream.Send(outputToProto(name, text))
	})
	if err != nil && outcome.Fault == nil {
		return err
	}
	return stream.Send(resultToProto(outcome))
}
