package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// ListPrompts lists the prompt files of a project.
func (s *DSL) ListPrompts(ctx context.Context, req *apiv1.ListPromptsRequest) (*apiv1.ListPromptsResponse, error) {
	list, err := s.projects.PromptFiles(ctx, owner(ctx), req.GetId())
	if err != nil {
		return nil, err
	}
	out := &apiv1.ListPromptsResponse{}
	for _, f := range list {
		item := &apiv1.PromptSummary{Path: f.Name, VersionCount: int32(f.Versions), Present: f.Present, UsedBy: f.UsedBy}
		if f.Versions > 0 {
			item.UpdatedAt = &f.UpdatedAt
		}
		out.Items = append(out.Items, item)
	}
	return out, nil
}
