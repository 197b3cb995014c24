// Package projectservice answers kaged.sessionmanager.v1.ProjectService: the calling operator's registry of projects.
package projectservice

import (
	"context"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/session-manager/internal/core/projects"
)

// Server is the gRPC service. Handlers translate and delegate.
type Server struct {
	sessionmanagerv1.UnimplementedProjectServiceServer
	projects *projects.Service
}

// New returns a Server of the registry.
func New(registry *projects.Service) *Server { return &Server{projects: registry} }

// owner returns the operator who calls. It fails with unauthenticated where nobody is known.
func owner(ctx context.Context) (string, error) {
	if id := ident.CallerFrom(ctx).UserID; id != "" {
		return id, nil
	}
	return "", fault.New(fault.Unauthenticated, "Projects belong to an operator, and who is calling is not known.")
}
