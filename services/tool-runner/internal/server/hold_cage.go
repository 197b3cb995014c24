package server

import (
	"google.golang.org/grpc"

	"kaged.dev/services/tool-runner/internal/core/command"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// HoldCage holds the cage of an invocation. The end of the caller's stream releases it.
func (s *Server) HoldCage(req *toolrunnerv1.HoldCageRequest, stream grpc.ServerStreamingServer[toolrunnerv1.HoldCageEvent]) error {
	from := callerFromProto(req.GetContext())
	return s.runner.HoldCage(stream.Context(), req.GetCageId(), from, func(e command.CageEvent) error {
		message := cageEventToProto(e, from.Cage)
		if message == nil {
			return nil // of a kind this build does not know
		}
		return stream.Send(message)
	})
}
