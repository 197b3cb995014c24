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
	if c, ok := req.GetControl().(*sandboxsupervisorv1.ControlProcessRequest_Signal); ok {
		// It may be meant for a command of Exec.
		err := s.supervisor.Signal(req.GetProcessId(), req.GetSessionId(), c.Signal.GetName())
		if err != nil {
			return nil, err
		}
		return &sandboxsupervisorv1.ControlProcessResponse{}, nil
	}
	process, err := s.processOf(req.GetSessionId(), req.GetProcessId())
	if err == nil {
		err = control(process, req)
	}
	if err != nil {
		return nil, err
	}
	return &sandboxsupervisorv1.ControlProcessResponse{Hidden: process.Hidden()}, nil
}

// control passes input or a size to a process of StartProcess.
func control(process *core.Detached, req *sandboxsupervisorv1.ControlProcessRequest) error {
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

// processOf returns a process of StartProcess, if it belongs to the session or the session is empty. It fails with
// process_not_found.
func (s *Server) processOf(session, id string) (*core.Detached, error) {
	process, err := s.supervisor.Detached(id)
	if err == nil && session != "" && process.Info().Owner.SessionID != session {
		return nil, core.UnknownProcess(id)
	}
	return process, err
}
