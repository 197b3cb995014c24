package server

import (
	"context"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/dap-pool/internal/core"

	dappoolv1 "kaged.dev/proto/gen/kaged/dappool/v1"
)

// View shows a debug session to people.
func (s *Server) View(ctx context.Context, req *dappoolv1.ViewRequest) (*dappoolv1.ViewResponse, error) {
	if req.GetSessionId() == "" || req.GetFrameId() < 0 || req.GetOutputFrom() < 0 {
		return nil, fault.New(fault.BadRequest, "A view needs a session_id, and numbers that are not negative.")
	}
	seen, err := s.pool.View(ctx, core.Look{
		Session: req.GetSessionId(), ID: req.GetDebugSessionId(), Frame: int(req.GetFrameId()),
		Output: req.GetOutputFrom(),
	})
	if err != nil {
		return nil, err
	}
	return &dappoolv1.ViewResponse{
		Sessions: contract.DebugSessionsProto(seen.All), View: seen.View.Proto(), Root: seen.Root,
	}, nil
}
