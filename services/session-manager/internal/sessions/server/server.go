// Package server serves kaged.sessionmanager.v1.SessionService: each file is one RPC, convert.go the translation.
package server

import (
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/session-manager/internal/sessions/core/sessions"
)

// Server answers for sessions of the operator in the context.
type Server struct {
	sessionmanagerv1.UnimplementedSessionServiceServer
	sessions *sessions.Service
}

// New returns a Server.
func New(s *sessions.Service) *Server { return &Server{sessions: s} }
