package sessionservice

import (
	"context"

	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// EndSession ends the session, cancels its run and kills what runs for it.
func (s *Server) EndSession(ctx context.Context, req *sessionmanagerv1.EndSessionRequest) (*sessionmanagerv1.EndSessionResponse, error) {
	if err := known(ctx); err != nil {
		return nil, err
	}
	ended, err := s.sessions.End(ctx, req.GetId(), req.GetConfirm())
	if err != nil {
		return nil, err
	}
	return &sessionmanagerv1.EndSessionResponse{Session: session(ended)}, nil
}
