package sessionservice

import (
	"context"

	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// GetSession returns one session, ended ones too.
func (s *Server) GetSession(ctx context.Context, req *sessionmanagerv1.GetSessionRequest) (*sessionmanagerv1.GetSessionResponse, error) {
	if err := known(ctx); err != nil {
		return nil, err
	}
	found, err := s.sessions.Get(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	return &sessionmanagerv1.GetSessionResponse{Session: session(found)}, nil
}
