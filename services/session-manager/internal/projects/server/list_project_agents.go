package server

import (
	"context"
	"strings"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/optional"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
)

// ListProjectAgents lists the agents of a project with their tools, cages and limits.
func (s *Server) ListProjectAgents(
	ctx context.Context, req *apiv1.ListProjectAgentsRequest,
) (*apiv1.ListProjectAgentsResponse, error) {
	agents, err := s.projects.Agents(ctx, owner(ctx), req.GetId())
	if err != nil {
		return nil, err
	}
	resp := &apiv1.ListProjectAgentsResponse{}
	for i := range agents.List {
		resp.Items = append(resp.Items, agentToProto(&agents, i))
	}
	return resp, nil
}

func agentToProto(agents *projects.Agents, i int) *apiv1.ProjectAgent {
	a := agents.List[i].Agent
	out := &apiv1.ProjectAgent{
		AgentPath: a.Path, ParentPath: optional.NonZero(parentOf(a.Path)), Description: a.Description, Model: a.Model,
		BoundTo: optional.NonZero(agents.Bindings[a.Model]), Prompt: a.Prompt, Limits: agentLimits(a),
		Cage: &apiv1.AgentCage{Caged: a.Cage != nil, Sentences: a.Cage.Sentences(), Summary: a.Cage.Summary()},
	}
	for _, d := range agents.List[i].Decisions {
		t := agents.Catalogue.Find(d.Tool)
		out.Tools = append(out.Tools, &apiv1.AgentTool{
			Name: d.Tool, Enabled: d.Enabled, Why: d.Why(t.DefaultRoot), DecidedBy: d.By.String(), Place: d.Place(),
			Actions: d.Actions(), ShownAs: d.ShownAs, Writes: t.Writes,
		})
	}
	return out
}

// parentOf returns the tree path of the parent, "" for the root's.
func parentOf(path string) string {
	if i := strings.LastIndex(path, ".subagents."); i >= 0 {
		return path[:i]
	}
	return ""
}

// nano is the number of billionths in a US dollar.
const nano = 1e9

func agentLimits(a *dsl.Agent) *apiv1.AgentLimits {
	out := &apiv1.AgentLimits{
		MaxSteps: optional.NonZero(int32(a.MaxSteps)), MaxOutputTokens: optional.NonZero(int32(a.MaxOutputTokens)),
	}
	b := a.Budget
	if b == nil {
		return out
	}
	out.BudgetTokens, out.BudgetCalls = optional.NonZero(b.Tokens), optional.NonZero(b.Calls)
	out.BudgetWalltimeMs = optional.NonZero(b.Walltime.Milliseconds())
	out.LiveAgents, out.Depth = optional.NonZero(int32(b.LiveAgents)), optional.NonZero(int32(b.Depth))
	out.BudgetUsd = optional.NonZero(float64(b.NanoUSD) / nano)
	return out
}
