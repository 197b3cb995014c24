package server

import (
	"context"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
	"kaged.dev/services/tool-runner/internal/core/project"
)

// WriteProject writes a file of a project.
func (s *Server) WriteProject(
	ctx context.Context,
	req *toolrunnerv1.WriteProjectRequest,
) (*toolrunnerv1.WriteProjectResponse, error) {
	sum, err := s.runner.WriteProject(ctx, project.Writing{
		Root: req.GetRoot(), Path: req.GetPath(), Content: req.GetContent(), Was: req.GetWasSha256(),
	})
	if err != nil {
		return nil, err
	}
	return &toolrunnerv1.WriteProjectResponse{Sha256: sum}, nil
}
