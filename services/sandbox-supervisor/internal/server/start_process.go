package server

import (
	"context"

	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"

	"kaged.dev/pkg/contract/sandboxwire"
)

// StartProcess starts a command without a stream.
func (s *Server) StartProcess(
	ctx context.Context,
	req *sandboxsupervisorv1.StartProcessRequest,
) (*sandboxsupervisorv1.StartProcessResponse, error) {
	process, err := s.supervisor.Detach(ctx, req.GetProcessId(), startFromProto(req.GetStart()))
	if err != nil {
		return nil, err
	}
	return &sandboxsupervisorv1.StartProcessResponse{Process: sandboxwire.Process(process.Info())}, nil
}
