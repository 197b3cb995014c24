package server

import (
	"context"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/dap-pool/internal/core"

	dappoolv1 "kaged.dev/proto/gen/kaged/dappool/v1"
)

// Control moves a program for an operator.
func (s *Server) Control(ctx context.Context, req *dappoolv1.ControlRequest) (*dappoolv1.ControlResponse, error) {
	switch {
	case req.GetSessionId() == "" || req.GetOperatorId() == "":
		return nil, fault.New(fault.BadRequest, "A move needs a session_id and an operator_id.")
	case req.GetTimeoutMs() < 1 || req.GetTimeoutMs() > maxTimeout || req.GetFrameId() < 0:
		return nil, fault.New(fault.BadRequest, "A number of the move is out of bounds.")
	}
	a, err := s.pool.Control(ctx, core.Do{
		Owner: contract.Owner{SessionID: req.GetSessionId()}, SessionID: req.GetDebugSessionId(),
		Operator: req.GetOperatorId(), Action: core.Action(req.GetAction()),
		Timeout:  time.Duration(req.GetTimeoutMs()) * time.Millisecond,
		ThreadID: int(req.GetThreadId()), Expression: req.GetExpression(), Frame: int(req.GetFrameId()),
	})
	if err != nil {
		return nil, err
	}
	res := &dappoolv1.ControlResponse{DebugSessionId: a.ID}
	if a.Status != "" {
		res.State = stateToProto(a)
	}
	if a.Result != nil {
		res.Result = a.Result.Proto()
	}
	return res, nil
}
