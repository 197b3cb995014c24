package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// GetProject returns one project.
func (s *Server) GetProject(ctx context.Context, req *apiv1.GetProjectRequest) (*apiv1.GetProjectResponse, error) {
	d, err := s.projects.Get(ctx, owner(ctx), req.GetId())
	if err != nil {
		return nil, err
	}
	return &apiv1.GetProjectResponse{Project: details(d)}, nil
}
