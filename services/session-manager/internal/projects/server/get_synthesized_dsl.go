package server

import (
	"context"

	"google.golang.org/protobuf/types/known/structpb"

	"kaged.dev/pkg/optional"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// GetSynthesizedDsl returns a project as one document.
func (s *DSL) GetSynthesizedDsl(
	ctx context.Context,
	req *apiv1.GetSynthesizedDslRequest,
) (*apiv1.GetSynthesizedDslResponse, error) {
	d, err := s.projects.Synthesize(ctx, owner(ctx), req.GetId())
	if err != nil {
		return nil, err
	}
	out := &apiv1.GetSynthesizedDslResponse{
		Yaml: optional.NonZero(d.YAML), HasOverlay: d.HasOverlay, HasProjectReferences: d.HasReferences,
		ResolvedTools: structpb.NewNullValue(), Warnings: d.Warnings(), CrossRefErrors: d.CrossReferences(),
		Error: dslInvalid(ctx, d.Verdict),
	}
	if !d.Valid {
		out.Diagnostics = dslDiagnostics(d.Errors())
		return out, nil
	}
	tools := &structpb.ListValue{}
	for _, name := range d.Tools {
		tools.Values = append(tools.Values, structpb.NewStringValue(name))
	}
	out.ResolvedTools = structpb.NewListValue(tools)
	return out, nil
}
