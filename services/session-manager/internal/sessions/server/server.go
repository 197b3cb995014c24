// Package server is the gRPC services of sessions. Each RPC of SessionService, or a pair of related ones, has a
// file; convert*.go convert messages. AttachService, TerminalService and SystemService (notices.go) have one file
// each.
package server

import (
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/session-manager/internal/sessions/core/sessions"
)

// Server is the gRPC service SessionService. The context carries the operator.
type Server struct {
	sessionmanagerv1.UnimplementedSessionServiceServer
	sessions *sessions.Service
}

// New returns a Server.
func New(s *sessions.Service) *Server { return &Server{sessions: s} }
