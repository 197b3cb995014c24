// Package server answers kaged.sessionmanager.v1.AuditService: the append-only record.
package server

import (
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
)

// Server is the gRPC service. Its handlers convert messages and call core.
type Server struct {
	sessionmanagerv1.UnimplementedAuditServiceServer
	audit *audit.Service
}

// New returns a Server of the record.
func New(record *audit.Service) *Server { return &Server{audit: record} }
