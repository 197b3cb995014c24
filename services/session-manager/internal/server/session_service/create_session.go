package sessionservice

import (
	"context"

	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/session-manager/internal/core/sessions"
)

// CreateSession starts a conversation; no work begins.
func (s *Server) CreateSession(ctx context.Context, req *sessionmanagerv1.CreateSessionRequest) (*sessionmanagerv1.CreateSessionResponse, error) {
	if err := known(ctx); err != nil {
		return nil, err
	}
	created, err := s.sessions.Create(ctx, sessions.NewSession{
		ProjectID: req.GetProjectId(), Name: req.GetName(), Label: req.GetLabel(), ResumeFrom: req.GetResumeFrom(),
	})
	if err != nil {
		return nil, err
	}
	return &sessionmanagerv1.CreateSessionResponse{
		Id: created.ID, ProjectId: created.ProjectID, State: state(created.State), CreatedAt: created.CreatedAt,
		Name: text(created.Label), Label: text(created.Label),
	}, nil
}
