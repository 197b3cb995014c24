package server

import (
	"context"

	"google.golang.org/protobuf/types/known/structpb"

	"kaged.dev/pkg/check"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// UpdateProject changes a project's label.
func (s *DSL) UpdateProject(
	ctx context.Context,
	req *apiv1.UpdateProjectRequest,
) (*apiv1.UpdateProjectResponse, error) {
	label, err := labelOf(req.GetLabel())
	if err != nil {
		return nil, err
	}
	p, err := s.projects.SetLabel(ctx, owner(ctx), req.GetId(), label)
	if err != nil {
		return nil, err
	}
	return &apiv1.UpdateProjectResponse{Project: summary(p)}, nil
}

// labelOf reads a label: text or null.
func labelOf(v *structpb.Value) (*string, error) {
	switch k := v.GetKind().(type) {
	case *structpb.Value_NullValue:
		return nil, nil
	case *structpb.Value_StringValue:
		return &k.StringValue, nil
	}
	return nil, check.Field("label", "label must be a text or null.")
}
