package projectservice

import (
	"context"

	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// GetProject returns one project.
func (s *Server) GetProject(ctx context.Context, req *sessionmanagerv1.GetProjectRequest) (*sessionmanagerv1.GetProjectResponse, error) {
	user, err := owner(ctx)
	if err != nil {
		return nil, err
	}
	d, err := s.projects.Get(ctx, user, req.GetId())
	if err != nil {
		return nil, err
	}
	return &sessionmanagerv1.GetProjectResponse{Project: details(d)}, nil
}
