package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// UnregisterProject removes a project from the registry and ends its sessions.
func (s *Server) UnregisterProject(
	ctx context.Context, req *apiv1.UnregisterProjectRequest,
) (*apiv1.UnregisterProjectResponse, error) {
	removed, err := s.unregister.Unregister(ctx, owner(ctx), req.GetId(), req.GetConfirm())
	if err != nil {
		return nil, err
	}
	return &apiv1.UnregisterProjectResponse{
		Id: removed.ID, Path: removed.Path, SessionsEnded: int32(removed.SessionsEnded),
		UnregisteredAt: removed.UnregisteredAt,
	}, nil
}
