package server

import (
	"context"

	"kaged.dev/pkg/contract"

	dappoolv1 "kaged.dev/proto/gen/kaged/dappool/v1"
)

// Start starts a debug session.
func (s *Server) Start(ctx context.Context, req *dappoolv1.StartRequest) (*dappoolv1.StartResponse, error) {
	start, err := startFromProto(req)
	if err != nil {
		return nil, err
	}
	a, err := s.pool.Start(ctx, start)
	if err != nil {
		return nil, err
	}
	return &dappoolv1.StartResponse{State: stateToProto(a), Records: contract.RecordsProto(a.Records)}, nil
}
