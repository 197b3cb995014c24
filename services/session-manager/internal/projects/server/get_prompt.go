package server

import (
	"context"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/optional"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// GetPrompt returns a prompt with its versions.
func (s *DSL) GetPrompt(ctx context.Context, req *apiv1.GetPromptRequest) (*apiv1.GetPromptResponse, error) {
	if req.GetVersion() < 0 || req.GetDiffFrom() < 0 {
		return nil, check.Field("version", "version and diff_from must be numbers of versions.")
	}
	p, err := s.projects.Prompt(ctx, owner(ctx), req.GetId(), req.GetName(), int(req.GetVersion()), int(req.GetDiffFrom()))
	if err != nil {
		return nil, err
	}
	out := &apiv1.GetPromptResponse{Path: p.Path, Version: int32(p.Version), Text: p.Text, Sha256: p.SHA256, Diff: p.Diff}
	for _, v := range p.Versions {
		out.Versions = append(out.Versions, &apiv1.PromptVersion{
			Version: int32(v.Version), Sha256: v.SHA256, Author: optional.NonZero(v.Author), CreatedAt: v.CreatedAt,
		})
	}
	return out, nil
}
