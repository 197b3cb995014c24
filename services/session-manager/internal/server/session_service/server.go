// Package sessionservice serves kaged.sessionmanager.v1.SessionService: each file is one RPC, convert.go the translation.
package sessionservice

import (
	"context"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/session-manager/internal/core/sessions"
)

// Server answers for sessions of the operator whom the context carries.
type Server struct {
	sessionmanagerv1.UnimplementedSessionServiceServer
	sessions *sessions.Service
}

// New returns a Server.
func New(s *sessions.Service) *Server { return &Server{sessions: s} }

// known fails with unauthenticated if nobody is calling: every session belongs to somebody.
func known(ctx context.Context) error {
	if ident.CallerFrom(ctx).UserID == "" {
		return fault.New(fault.Unauthenticated, "Sessions belong to operators; sign in first.")
	}
	return nil
}
