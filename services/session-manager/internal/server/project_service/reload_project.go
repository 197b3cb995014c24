package projectservice

import (
	"context"

	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// ReloadProject reads a project's files again.
func (s *Server) ReloadProject(ctx context.Context, req *sessionmanagerv1.ReloadProjectRequest) (*sessionmanagerv1.ReloadProjectResponse, error) {
	user, err := owner(ctx)
	if err != nil {
		return nil, err
	}
	p, err := s.projects.Reload(ctx, user, req.GetId())
	if err != nil {
		return nil, err
	}
	return &sessionmanagerv1.ReloadProjectResponse{Project: registered(p)}, nil
}
