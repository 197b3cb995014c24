// Package server is the gRPC service kaged.sessionmanager.v1.LogService: the logs of projects.
package server

import (
	"context"

	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/page"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/session-manager/internal/adapter/notices"
	"kaged.dev/services/session-manager/internal/logs/core/logs"
)

// Server is the gRPC service. Handlers translate and delegate.
type Server struct {
	sessionmanagerv1.UnimplementedLogServiceServer
	logs *logs.Service
}

// New returns a Server of the logs.
func New(service *logs.Service) *Server { return &Server{logs: service} }

// ListProjectLogs returns a page of a project's log, newest first.
func (s *Server) ListProjectLogs(
	ctx context.Context, req *apiv1.ListProjectLogsRequest,
) (*apiv1.ListProjectLogsResponse, error) {
	p, err := s.logs.List(ctx, ident.CallerFrom(ctx).UserID, req.GetId(), logs.Filter{
		Level: req.GetLevel(), Source: req.GetSource(), Session: req.GetSession(),
		Since: req.GetSince(), Until: req.GetUntil(),
	}, req.GetLimit(), req.GetCursor())
	if err != nil {
		return nil, err
	}
	return &apiv1.ListProjectLogsResponse{
		Items: page.Map(p, notices.LogEntry).Items, NextCursor: p.NextCursor(), HasMore: p.HasMore(),
	}, nil
}
