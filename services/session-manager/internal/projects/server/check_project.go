package server

import (
	"context"

	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
)

// Registry answers kaged.sessionmanager.v1.RegistryService.
type Registry struct {
	sessionmanagerv1.UnimplementedRegistryServiceServer
	projects *projects.Service
}

// NewRegistry returns the Registry of the projects.
func NewRegistry(registry *projects.Service) *Registry { return &Registry{projects: registry} }

// CheckProject fails unless the operator has registered the project and it declares the workflow.
func (r *Registry) CheckProject(ctx context.Context,
	req *sessionmanagerv1.CheckProjectRequest,
) (*sessionmanagerv1.CheckProjectResponse, error) {
	var err error
	if name := req.GetWorkflow(); name != "" {
		err = r.projects.Declares(ctx, owner(ctx), req.GetId(), name)
	} else {
		err = r.projects.Known(ctx, owner(ctx), req.GetId())
	}
	if err != nil {
		return nil, err
	}
	return &sessionmanagerv1.CheckProjectResponse{}, nil
}
