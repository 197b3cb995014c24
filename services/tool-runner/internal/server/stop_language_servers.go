package server

import (
	"context"

	"kaged.dev/pkg/contract"
	"kaged.dev/services/tool-runner/internal/core/language"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// StopLanguageServers ends language servers. They start again with the next query.
func (s *Server) StopLanguageServers(
	ctx context.Context, req *toolrunnerv1.StopLanguageServersRequest,
) (*toolrunnerv1.StopLanguageServersResponse, error) {
	if req.GetUnload() {
		list, records, err := s.runner.UnloadProject(ctx, req.GetProjectId(), req.GetRoot())
		if err != nil {
			return nil, err
		}
		return &toolrunnerv1.StopLanguageServersResponse{
			Servers: contract.LanguageServersProto(list), Records: contract.RecordsProto(records),
		}, nil
	}
	which := language.Filter{ProjectID: req.GetProjectId(), Root: req.GetRoot(), Lang: req.GetLang()}
	list, err := s.runner.StopLanguageServers(ctx, which)
	if err != nil {
		return nil, err
	}
	return &toolrunnerv1.StopLanguageServersResponse{Servers: contract.LanguageServersProto(list)}, nil
}
