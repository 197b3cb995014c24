package server

import (
	"context"

	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/page"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// QueryAudit returns entries that the caller may read, newest first, page by page. A caller without an operator gets
// the entries without an operator.
func (s *Server) QueryAudit(ctx context.Context, req *apiv1.QueryAuditRequest) (*apiv1.QueryAuditResponse, error) {
	p, err := s.audit.Query(ctx, ident.CallerFrom(ctx).UserID, filter(req), req.GetLimit(), req.GetCursor())
	if err != nil {
		return nil, err
	}
	return &apiv1.QueryAuditResponse{Items: page.Map(p, entry).Items, NextCursor: p.NextCursor(), HasMore: p.HasMore()},
		nil
}
