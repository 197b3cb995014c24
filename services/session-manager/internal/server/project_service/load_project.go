package projectservice

import (
	"context"

	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// LoadProject registers the project in a folder.
func (s *Server) LoadProject(ctx context.Context, req *sessionmanagerv1.LoadProjectRequest) (*sessionmanagerv1.LoadProjectResponse, error) {
	user, err := owner(ctx)
	if err != nil {
		return nil, err
	}
	p, created, err := s.projects.Load(ctx, user, req.GetPath())
	if err != nil {
		return nil, err
	}
	return &sessionmanagerv1.LoadProjectResponse{Project: registered(p), Created: created}, nil
}
