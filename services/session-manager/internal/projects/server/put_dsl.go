package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// PutDsl replaces the project file.
func (s *DSL) PutDsl(ctx context.Context, req *apiv1.PutDslRequest) (*apiv1.PutDslResponse, error) {
	w, err := s.projects.PutDSL(ctx, owner(ctx), req.GetId(), req.Dsl, matched(ctx))
	if err != nil {
		return nil, err
	}
	out := &apiv1.PutDslResponse{
		Valid: w.Valid, Diagnostics: dslDiagnostics(w.Errors()), Warnings: w.Warnings(), CrossRefErrors: w.CrossReferences(),
		Saved: w.Valid, Sha256: w.SHA256, Error: dslInvalid(ctx, w.Verdict),
	}
	if w.Valid {
		out.State = state(w.State)
	}
	if w.Waits {
		out.Warnings = append(
			out.Warnings,
			"Other files of the project wait for approval, and it goes on with the approved version: "+
				"GET /api/v1/projects/"+req.GetId()+"/approval shows them.",
		)
	}
	return out, nil
}
