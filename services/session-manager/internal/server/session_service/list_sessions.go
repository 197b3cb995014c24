package sessionservice

import (
	"context"

	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/session-manager/internal/core/page"
)

// ListSessions lists a project's sessions, newest first, a page at a time.
func (s *Server) ListSessions(ctx context.Context, req *sessionmanagerv1.ListSessionsRequest) (*sessionmanagerv1.ListSessionsResponse, error) {
	if err := known(ctx); err != nil {
		return nil, err
	}
	p, err := s.sessions.List(ctx, req.GetProjectId(), req.GetLimit(), req.GetCursor())
	if err != nil {
		return nil, err
	}
	return &sessionmanagerv1.ListSessionsResponse{Items: page.Map(p, summary).Items, NextCursor: p.NextCursor(), HasMore: p.HasMore()}, nil
}
