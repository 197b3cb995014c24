package server

import (
	"context"

	"kaged.dev/pkg/fault"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
	"kaged.dev/services/sandbox-supervisor/internal/core"
)

// ControlProcess passes input, a size or a signal to a process.
func (s *Server) ControlProcess(
	_ context.Context,
	req *sandboxsupervisorv1.ControlProcessRequest,
) (*sandboxsupervisorv1.ControlProcessResponse, error) {
	var err error
	if c, ok := req.GetControl().(*sandboxsupervisorv1.ControlProcessRequest_Signal); ok {
		err = s.supervisor.Signal(req.GetProcessId(), req.GetSessionId(), c.Signal.GetName())
	} else {
		err = s.control(req)
	}
	if err != nil {
		return nil, err
	}
	return &sandboxsupervisorv1.ControlProcessResponse{}, nil
}

// control hands input or a size to a process of StartProcess.
func (s *Server) control(req *sandboxsupervisorv1.ControlProcessRequest) error {
	process, err := s.supervisor.Detached(req.GetProcessId())
	if err != nil {
		return err
	}
	if session := req.GetSessionId(); session != "" && process.Info().Owner.SessionID != session {
		return core.UnknownProcess(req.GetProcessId())
	}
	switch c := req.GetControl().(type) {
	case *sandboxsupervisorv1.ControlProcessRequest_Stdin:
		return process.Offer(c.Stdin)
	case *sandboxsupervisorv1.ControlProcessRequest_CloseStdin:
		return process.CloseInput()
	case *sandboxsupervisorv1.ControlProcessRequest_Resize:
		return process.Resize(sizeFromProto(c.Resize.GetTerminal()))
	default:
		return fault.New(fault.BadRequest, "The request asks for nothing.")
	}
}
