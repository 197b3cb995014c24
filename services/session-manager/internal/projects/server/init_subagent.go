package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// InitSubagent makes a project file in a folder of a project.
func (s *DSL) InitSubagent(ctx context.Context, req *apiv1.InitSubagentRequest) (*apiv1.InitSubagentResponse, error) {
	made, err := s.projects.InitSubagent(ctx, owner(ctx), req.GetId(), req.GetPath())
	if err != nil {
		return nil, err
	}
	return &apiv1.InitSubagentResponse{Path: made.Path, Project: made.Slug, Created: made.Created}, nil
}
