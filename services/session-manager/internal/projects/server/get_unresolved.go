package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// GetUnresolved lists the aliases and prompts that a project lacks.
func (s *DSL) GetUnresolved(
	ctx context.Context,
	req *apiv1.GetUnresolvedRequest,
) (*apiv1.GetUnresolvedResponse, error) {
	d, err := s.projects.Get(ctx, owner(ctx), req.GetId())
	if err != nil {
		return nil, err
	}
	return &apiv1.GetUnresolvedResponse{Unresolved: unresolved(d.Unresolved)}, nil
}
