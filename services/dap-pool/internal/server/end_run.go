package server

import (
	"context"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"

	dappoolv1 "kaged.dev/proto/gen/kaged/dappool/v1"
)

// EndRun ends the debug sessions of a run.
func (s *Server) EndRun(_ context.Context, req *dappoolv1.EndRunRequest) (*dappoolv1.EndRunResponse, error) {
	if req.GetSessionId() == "" {
		return nil, fault.New(fault.BadRequest, "The session of a run is missing.")
	}
	records := s.pool.EndRun(req.GetSessionId(), req.GetRunId())
	return &dappoolv1.EndRunResponse{Records: contract.RecordsProto(records)}, nil
}
