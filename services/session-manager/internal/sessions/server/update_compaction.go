package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// UpdateCompaction stores the operator's judgement of a compaction.
func (s *Server) UpdateCompaction(
	ctx context.Context, req *apiv1.UpdateCompactionRequest,
) (*apiv1.UpdateCompactionResponse, error) {
	flag, err := textField("flag", req.GetFlag())
	if err != nil {
		return nil, err
	}
	notes, err := textField("notes", req.GetNotes())
	if err != nil {
		return nil, err
	}
	c, gone, err := s.sessions.FlagCompaction(ctx, req.GetSessionId(), req.GetCompactionId(), flag, notes)
	if err != nil {
		return nil, err
	}
	return &apiv1.UpdateCompactionResponse{Compaction: wholeCompaction(c, gone)}, nil
}
