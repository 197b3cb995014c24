package server

import (
	"google.golang.org/grpc"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// RunTool runs one call and streams its output. The end of the caller's stream ends the call. A call that was
// cancelled after its tool was reached has a result: it holds the records of its effects.
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
