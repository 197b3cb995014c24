package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// ValidateDsl checks a project file by itself.
func (s *DSL) ValidateDsl(ctx context.Context, req *apiv1.ValidateDslRequest) (*apiv1.ValidateDslResponse, error) {
	v, err := s.projects.Validate(ctx, owner(ctx), req.Dsl)
	if err != nil {
		return nil, err
	}
	return &apiv1.ValidateDslResponse{
		Valid: v.Valid, Diagnostics: dslDiagnostics(v.Errors()), Warnings: v.Warnings(), CrossRefErrors: v.CrossReferences(),
		Error: dslInvalid(ctx, v),
	}, nil
}
