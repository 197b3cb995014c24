package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// GetCompaction returns a compaction with its superseded messages.
func (s *Server) GetCompaction(ctx context.Context, req *apiv1.GetCompactionRequest) (*apiv1.GetCompactionResponse,
	error,
) {
	c, gone, err := s.sessions.Compaction(ctx, req.GetSessionId(), req.GetCompactionId())
	if err != nil {
		return nil, err
	}
	return &apiv1.GetCompactionResponse{Compaction: wholeCompaction(c, gone)}, nil
}
