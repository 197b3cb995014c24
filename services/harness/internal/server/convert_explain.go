package server

import (
	"kaged.dev/services/harness/internal/core/compile"

	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

var layersToProto = map[compile.Layer]harnessv1.Decider{
	compile.ByDefault:  harnessv1.Decider_DECIDER_DEFAULT,
	compile.ByOperator: harnessv1.Decider_DECIDER_OPERATOR,
	compile.ByProfile:  harnessv1.Decider_DECIDER_PROFILE,
	compile.ByAgent:    harnessv1.Decider_DECIDER_AGENT,
	compile.ByScope:    harnessv1.Decider_DECIDER_SCOPE,
}

func explanationToProto(e compile.Explanation) *harnessv1.ExplainToolsResponse {
	out := &harnessv1.ExplainToolsResponse{
		Diagnostics: diagnosticsToProto(e.Diagnostics), Wanted: e.Wanted, Project: e.Project, Agents: e.Agents,
	}
	if e.Agent == nil {
		return out
	}
	out.Agent, out.Cage = e.Agent.Path, e.Agent.Cage.Proto()
	for _, d := range e.Decisions {
		out.Decisions = append(out.Decisions, &harnessv1.ToolDecision{
			Tool: d.Tool, Enabled: d.Enabled, DecidedBy: layersToProto[d.By], Pattern: d.Pattern,
			File: d.Pos.File, Line: int32(d.Pos.Line), ShownAs: d.ShownAs,
		})
	}
	return out
}
