package server

import (
	"context"

	dappoolv1 "kaged.dev/proto/gen/kaged/dappool/v1"
)

// Act executes an action on a debug session.
func (s *Server) Act(ctx context.Context, req *dappoolv1.ActRequest) (*dappoolv1.ActResponse, error) {
	do, err := actionFromProto(req)
	if err != nil {
		return nil, err
	}
	a, err := s.pool.Do(ctx, do)
	if err != nil {
		return nil, err
	}
	return answerToProto(a), nil
}
