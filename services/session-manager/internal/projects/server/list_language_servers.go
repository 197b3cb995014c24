package server

import (
	"context"

	"kaged.dev/pkg/contract"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// ListLanguageServers lists the language servers of one project, or of all projects of the operator.
func (s *Server) ListLanguageServers(
	ctx context.Context, req *apiv1.ListLanguageServersRequest,
) (*apiv1.ListLanguageServersResponse, error) {
	list, err := s.projects.LanguageServers(ctx, owner(ctx), req.GetProjectId())
	if err != nil {
		return nil, err
	}
	return &apiv1.ListLanguageServersResponse{Servers: contract.LanguageServersProto(list)}, nil
}
