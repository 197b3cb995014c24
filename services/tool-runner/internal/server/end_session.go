package server

import (
	"context"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// EndSession forgets a session's read records and ends its processes.
func (s *Server) EndSession(ctx context.Context, req *toolrunnerv1.EndSessionRequest) (*toolrunnerv1.EndSessionResponse, error) {
	if err := s.runner.EndSession(ctx, req.GetSessionId()); err != nil {
		return nil, err
	}
	return &toolrunnerv1.EndSessionResponse{}, nil
}
