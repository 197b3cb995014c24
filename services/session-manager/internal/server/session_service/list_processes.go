package sessionservice

import (
	"context"

	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// ListProcesses says what runs for the operator's sessions, or for one of them.
func (s *Server) ListProcesses(ctx context.Context, req *sessionmanagerv1.ListProcessesRequest) (*sessionmanagerv1.ListProcessesResponse, error) {
	if err := known(ctx); err != nil {
		return nil, err
	}
	found, err := s.sessions.Running(ctx, req.GetSessionId())
	if err != nil {
		return nil, err
	}
	return running(found), nil
}
