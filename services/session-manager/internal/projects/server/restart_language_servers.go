package server

import (
	"context"

	"kaged.dev/pkg/contract"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// RestartLanguageServers ends language servers of a project. They start again with the next query.
func (s *Server) RestartLanguageServers(
	ctx context.Context, req *apiv1.RestartLanguageServersRequest,
) (*apiv1.RestartLanguageServersResponse, error) {
	list, err := s.projects.RestartLanguageServers(ctx, owner(ctx), req.GetProjectId(), req.GetLang())
	if err != nil {
		return nil, err
	}
	return &apiv1.RestartLanguageServersResponse{Servers: contract.LanguageServersProto(list)}, nil
}
