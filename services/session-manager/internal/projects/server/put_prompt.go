package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
)

// PutPrompt writes a prompt.
func (s *DSL) PutPrompt(ctx context.Context, req *apiv1.PutPromptRequest) (*apiv1.PutPromptResponse, error) {
	v, err := s.projects.PutPrompt(ctx, owner(ctx), req.GetId(), req.GetName(), projects.PromptWriting{
		Text: req.Text, Restore: int(req.GetRestore()), Match: matched(ctx),
	})
	if err != nil {
		return nil, err
	}
	return &apiv1.PutPromptResponse{Path: req.GetName(), Version: int32(v.Version), Sha256: v.SHA256}, nil
}
