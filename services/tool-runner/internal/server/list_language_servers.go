package server

import (
	"context"

	"kaged.dev/pkg/contract"
	"kaged.dev/services/tool-runner/internal/core/language"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// ListLanguageServers lists the language servers of a project's folder, or of all folders.
func (s *Server) ListLanguageServers(
	ctx context.Context, req *toolrunnerv1.ListLanguageServersRequest,
) (*toolrunnerv1.ListLanguageServersResponse, error) {
	list, err := s.runner.LanguageServers(ctx, language.Filter{ProjectID: req.GetProjectId(), Root: req.GetRoot()})
	if err != nil {
		return nil, err
	}
	return &toolrunnerv1.ListLanguageServersResponse{Servers: contract.LanguageServersProto(list)}, nil
}
