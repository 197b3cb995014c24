package auditservice

import (
	"context"

	"kaged.dev/pkg/ident"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/session-manager/internal/core/audit"
	"kaged.dev/services/session-manager/internal/core/page"
)

// QueryAudit returns entries the caller may see, newest first, a page at a time. A caller nobody knows sees those of nobody.
func (s *Server) QueryAudit(ctx context.Context, req *sessionmanagerv1.QueryAuditRequest) (*sessionmanagerv1.QueryAuditResponse, error) {
	p, err := s.audit.Query(ctx, ident.CallerFrom(ctx).UserID, filter(req), req.GetLimit(), req.GetCursor())
	if err != nil {
		return nil, err
	}
	return &sessionmanagerv1.QueryAuditResponse{Items: page.Map(p, entry).Items, NextCursor: p.NextCursor(), HasMore: p.HasMore()}, nil
}

func filter(req *sessionmanagerv1.QueryAuditRequest) audit.Filter {
	return audit.Filter{
		Since: req.GetSince(), Until: req.GetUntil(), ProjectID: req.GetProjectId(), SessionID: req.GetSession(), EventType: req.GetEventType(),
	}
}
