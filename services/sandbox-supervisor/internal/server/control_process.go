package server

import (
	"context"

	"kaged.dev/pkg/fault"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

// ControlProcess hands something to a process.
func (s *Server) ControlProcess(_ context.Context, req *sandboxsupervisorv1.ControlProcessRequest) (*sandboxsupervisorv1.ControlProcessResponse, error) {
	process, err := s.supervisor.Detached(req.GetProcessId())
	if err != nil {
		return nil, err
	}
	switch c := req.GetControl().(type) {
	case *sandboxsupervisorv1.ControlProcessRequest_Stdin:
		err = process.Offer(c.Stdin)
	case *sandboxsupervisorv1.ControlProcessRequest_CloseStdin:
		err = process.CloseInput()
	case *sandboxsupervisorv1.ControlProcessRequest_Resize:
		err = process.Resize(sizeFromProto(c.Resize.GetTerminal()))
	case *sandboxsupervisorv1.ControlProcessRequest_Signal:
		err = process.Signal(c.Signal.GetName())
	default:
		err = fault.New(fault.BadRequest, "The request asks for nothing.")
	}
	if err != nil {
		return nil, err
	}
	return &sandboxsupervisorv1.ControlProcessResponse{}, nil
}
