package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// LoadProject registers the project in a folder.
func (s *Server) LoadProject(ctx context.Context, req *apiv1.LoadProjectRequest) (*apiv1.LoadProjectResponse, error) {
	p, created, err := s.projects.Load(ctx, owner(ctx), req.GetPath())
	if err != nil {
		return nil, err
	}
	return &apiv1.LoadProjectResponse{Project: registered(p), Created: created}, nil
}
