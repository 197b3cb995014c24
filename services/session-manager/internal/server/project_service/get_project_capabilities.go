package projectservice

import (
	"context"

	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// GetProjectCapabilities says what a project's root agent may do.
func (s *Server) GetProjectCapabilities(ctx context.Context, req *sessionmanagerv1.GetProjectCapabilitiesRequest) (*sessionmanagerv1.GetProjectCapabilitiesResponse, error) {
	user, err := owner(ctx)
	if err != nil {
		return nil, err
	}
	c, err := s.projects.Capabilities(ctx, user, req.GetId())
	if err != nil {
		return nil, err
	}
	return capabilities(c), nil
}
