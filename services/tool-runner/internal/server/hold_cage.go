package server

import (
	"google.golang.org/grpc"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/contract/toolwire"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// HoldCage holds the cage of an invocation. The end of the caller's stream releases it.
func (s *Server) HoldCage(
	req *toolrunnerv1.HoldCageRequest,
	stream grpc.ServerStreamingServer[toolrunnerv1.HoldCageEvent],
) error {
	from := toolwire.FromCaller(req.GetContext())
	hold := s.runner.HoldCage
	return hold(stream.Context(), req.GetCageId(), from, req.GetTellChecked(), func(e contract.CageEvent) error {
		if e.Opened != nil {
			e.Opened.Summary = from.Cage.Summary()
		}
		message := toolwire.CageEvent(e)
		if message == nil {
			return nil // an event of a kind that this build does not know
		}
		return stream.Send(message)
	})
}
