package server

import (
	"context"

	lsppoolv1 "kaged.dev/proto/gen/kaged/lsppool/v1"
)

// Query queries a language server.
func (s *Server) Query(ctx context.Context, req *lsppoolv1.QueryRequest) (*lsppoolv1.QueryResponse, error) {
	query, err := queryFromProto(req)
	if err != nil {
		return nil, err
	}
	answer, err := s.pool.Ask(ctx, query)
	if err != nil {
		return nil, err
	}
	return answerToProto(answer), nil
}
