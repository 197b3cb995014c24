// Package server answers kaged.sessionmanager.v1.ProjectService: the calling operator's registry of projects.
package server

import (
	"context"

	"kaged.dev/pkg/ident"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
	"kaged.dev/services/session-manager/internal/sagas/core/unregister"
)

// Server is the gRPC service. Its handlers convert messages and call core.
type Server struct {
	sessionmanagerv1.UnimplementedProjectServiceServer
	projects   *projects.Service
	unregister *unregister.Saga
}

// New returns a Server of the registry.
func New(registry *projects.Service, unregister *unregister.Saga) *Server {
	return &Server{projects: registry, unregister: unregister}
}

// owner returns the calling operator. An interceptor has checked it.
func owner(ctx context.Context) string { return ident.CallerFrom(ctx).UserID }
