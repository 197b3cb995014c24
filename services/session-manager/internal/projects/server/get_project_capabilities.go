package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// GetProjectCapabilities returns the rights of a project's root agent.
func (s *Server) GetProjectCapabilities(
	ctx context.Context, req *apiv1.GetProjectCapabilitiesRequest,
) (*apiv1.GetProjectCapabilitiesResponse, error) {
	c, err := s.projects.Capabilities(ctx, owner(ctx), req.GetId())
	if err != nil {
		return nil, err
	}
	return capabilities(c), nil
}
