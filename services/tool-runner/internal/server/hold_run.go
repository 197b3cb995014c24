package server

import (
	"google.golang.org/grpc"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/contract/toolwire"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// HoldRun holds a run until the stream ends.
func (s *Server) HoldRun(
	req *toolrunnerv1.HoldRunRequest,
	stream grpc.ServerStreamingServer[toolrunnerv1.HoldRunEvent],
) error {
	return s.runner.HoldRun(stream.Context(), toolwire.FromCaller(req.GetContext()), func() error {
		return stream.Send(
			&toolrunnerv1.HoldRunEvent{Event: &toolrunnerv1.HoldRunEvent_Opened{Opened: &toolrunnerv1.RunOpened{}}},
		)
	}, func(e contract.DebugEvent) error {
		return stream.Send(&toolrunnerv1.HoldRunEvent{Event: &toolrunnerv1.HoldRunEvent_Debug{Debug: e.Proto()}})
	})
}
