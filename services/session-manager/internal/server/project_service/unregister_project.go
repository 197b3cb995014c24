package projectservice

import (
	"context"

	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// UnregisterProject removes a project from the registry and ends its sessions.
func (s *Server) UnregisterProject(ctx context.Context, req *sessionmanagerv1.UnregisterProjectRequest) (*sessionmanagerv1.UnregisterProjectResponse, error) {
	user, err := owner(ctx)
	if err != nil {
		return nil, err
	}
	removed, err := s.projects.Unregister(ctx, user, req.GetId(), req.GetConfirm())
	if err != nil {
		return nil, err
	}
	return &sessionmanagerv1.UnregisterProjectResponse{
		Id: removed.ID, Path: removed.Path, SessionsEnded: int32(removed.SessionsEnded), UnregisteredAt: removed.UnregisteredAt,
	}, nil
}
