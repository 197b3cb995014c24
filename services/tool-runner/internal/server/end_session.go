package server

import (
	"context"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"

	"kaged.dev/pkg/contract"
)

// EndSession removes a session's read records and ends its processes. It returns the records of their ends.
func (s *Server) EndSession(
	ctx context.Context,
	req *toolrunnerv1.EndSessionRequest,
) (*toolrunnerv1.EndSessionResponse, error) {
	ended, err := s.runner.EndSession(ctx, req.GetSessionId())
	if err != nil {
		return nil, err
	}
	return &toolrunnerv1.EndSessionResponse{Audit: contract.RecordsProto(ended)}, nil
}
