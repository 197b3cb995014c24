package server

import (
	"context"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/optional"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// GetDsl returns the project file in its state on disk.
func (s *DSL) GetDsl(ctx context.Context, req *apiv1.GetDslRequest) (*apiv1.GetDslResponse, error) {
	d, err := s.projects.DSL(ctx, owner(ctx), req.GetId())
	if err != nil {
		return nil, err
	}
	out := &apiv1.GetDslResponse{
		Dsl: d.Text, DslStatus: apiv1.DslStatus_DSL_STATUS_INVALID, SchemaVersion: dsl.Version, ValidatedAt: d.At,
		Sha256: optional.NonZero(d.SHA256),
	}
	if d.Valid {
		out.DslStatus = apiv1.DslStatus_DSL_STATUS_VALID
	}
	return out, nil
}
