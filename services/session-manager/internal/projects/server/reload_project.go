package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// ReloadProject reads a project's files again.
func (s *Server) ReloadProject(
	ctx context.Context, req *apiv1.ReloadProjectRequest,
) (*apiv1.ReloadProjectResponse, error) {
	p, err := s.projects.Reload(ctx, owner(ctx), req.GetId())
	if err != nil {
		return nil, err
	}
	return &apiv1.ReloadProjectResponse{Project: registered(p)}, nil
}
