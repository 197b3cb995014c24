package server

import (
	"context"

	"kaged.dev/services/harness/internal/core"
	"kaged.dev/services/harness/internal/core/compile"

	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

// ExplainTools says which tools an agent has and why, or what is wrong or still wanted.
func (s *Server) ExplainTools(ctx context.Context, req *harnessv1.ExplainToolsRequest) (*harnessv1.ExplainToolsResponse, error) {
	tools, err := s.deps.Workspaces.Open(req.GetWorkspace())
	if err != nil {
		return nil, err
	}
	out, err := compile.Explain(compile.Input{
		Files:         filesFromProto(req.GetFiles()),
		OperatorTools: switchesFromProto(req.GetDefaultTools()),
		Catalogue:     func() (core.Catalogue, error) { return tools.Catalogue(ctx) },
	}, req.GetAgent())
	if err != nil {
		return nil, err
	}
	return explanationToProto(out), nil
}
