package server

import (
	"context"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// ReadProject returns files of a project in their present state.
func (s *Server) ReadProject(
	ctx context.Context,
	req *toolrunnerv1.ReadProjectRequest,
) (*toolrunnerv1.ReadProjectResponse, error) {
	root, files, err := s.runner.ReadProject(ctx, projectFromProto(req))
	if err != nil {
		return nil, err
	}
	return projectToProto(root, files), nil
}
