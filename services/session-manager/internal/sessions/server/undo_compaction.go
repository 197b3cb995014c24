package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// UndoCompaction undoes the last valid compaction of an agent.
func (s *Server) UndoCompaction(ctx context.Context, req *apiv1.UndoCompactionRequest) (*apiv1.UndoCompactionResponse,
	error,
) {
	c, gone, err := s.sessions.UndoCompaction(ctx, req.GetSessionId(), req.GetCompactionId())
	if err != nil {
		return nil, err
	}
	return &apiv1.UndoCompactionResponse{Compaction: wholeCompaction(c, gone)}, nil
}
