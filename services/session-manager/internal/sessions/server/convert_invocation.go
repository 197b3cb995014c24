package server

import (
	"context"
	"maps"
	"slices"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/optional"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/sessions"
)

// whole returns a session with its budget and its active agents.
func (s *Server) whole(ctx context.Context, r record.Session) (*apiv1.Session, error) {
	out := session(r)
	use, err := s.sessions.Use(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	out.Budget = budget(r.Budget, use)
	if r.CurrentRun == "" {
		return out, nil
	}
	live, err := s.sessions.LiveAgents(ctx, r.ID)
	out.LiveSubagents = liveAgents(live)
	return out, err
}

// exit returns the exit status of an invocation, nil before its end.
func exit(i record.Invocation) *int32 {
	if !i.State.Over() {
		return nil
	}
	status := int32(i.State.Exit())
	return &status
}

// described returns invocations with their prompts, tools and outputs, in about most bytes.
func described(list []record.Invocation, most int) []*apiv1.SubagentInvocation {
	out := invocations(list)
	share := most / max(len(list), 1) / 4
	for at, i := range list {
		out[at].Prompt, out[at].Output = shorten(i.Prompt, share), shorten(i.Output, share)
		out[at].CagePolicy, out[at].Tools = invocationCage(i.Policy, share), few(i.Tools, share)
	}
	return out
}

func invocationCage(c *dsl.Cage, most int) *apiv1.InvocationCage {
	if c == nil {
		return nil
	}
	out := &apiv1.InvocationCage{
		NetAllow: few(c.Net, most/4), Seccomp: c.Seccomp, Capabilities: few(c.Capabilities, most/4), State: c.State,
		Env: few(slices.Sorted(maps.Keys(c.Env)), most/4), Git: c.Git,
	}
	for _, m := range c.FS {
		if most -= len(m.Path) + overhead; most < 0 {
			break
		}
		out.Fs = append(out.Fs, &apiv1.InvocationMount{Mode: m.Mode, Path: m.Path})
	}
	for _, place := range c.ReadOnly {
		if most -= len(place.Path) + overhead; most < 0 {
			break
		}
		out.ReadOnly = append(out.ReadOnly, place.Path)
	}
	return out
}

// invocation returns an invocation with its steps; the steps get half of answerBytes.
func invocation(d sessions.InvocationDetail) *apiv1.Invocation {
	i := d.Invocation
	out := &apiv1.Invocation{
		InvocationId: i.ID, RunId: i.RunID, ParentInvocationId: optional.NonZero(i.ParentID), ToolCallId: i.CallID,
		Name:      i.Name,
		AgentPath: i.AgentPath,
		State:     string(i.State), CageStatus: string(i.Cage), Exit: exit(i), Steps: int32(i.Steps),
		TokensIn:  i.Totals.TokensIn,
		TokensOut: i.Totals.TokensOut, CostUsd: i.Totals.CostUSD, StartedAt: i.StartedAt,
		EndedAt: optional.NonZero(i.EndedAt),
		Error:   i.Error.Proto(),
		Prompt:  i.Prompt, Output: i.Output, CagePolicy: invocationCage(i.Policy, answerBytes/8), Tools: few(i.Tools,
			answerBytes/8),
		FilesChanged: few(i.FilesChanged, answerBytes/8), RunSteps: steps(d.Steps, answerBytes/2),
	}
	if !i.State.Over() {
		out.Steps = int32(len(d.Steps))
	}
	return out
}
