package server

import (
	"context"

	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// RecordAudit appends entries of another service. They are on disk when it returns.
func (s *Server) RecordAudit(
	ctx context.Context, req *sessionmanagerv1.RecordAuditRequest,
) (*sessionmanagerv1.RecordAuditResponse, error) {
	if err := s.audit.Record(ctx, records(req)); err != nil {
		return nil, err
	}
	return &sessionmanagerv1.RecordAuditResponse{}, nil
}
