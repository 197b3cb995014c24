package runs

import (
	"cmp"
	"fmt"
	"slices"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/services/session-manager/internal/sessions/core/frames"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/transcript"
)

// endAgents ends the agents that are active when their run ends, deepest first, so that each ends after those below
// it. The open calls of the root get the ends of their agents as results.
func (e *ending) endAgents(render frames.Renderer, s record.Session, requestID string, c *record.Change) error {
	for _, a := range deepestFirst(e.open) {
		over := e.cut(a, c.At)
		for _, up := range e.open {
			if up.ID == a.ParentID {
				up.Change(a.FilesChanged...)
			}
		}
		if err := over.write(render, c, s, requestID); err != nil {
			return err
		}
		r := about(record.Run{ID: a.RunID}, s, requestID, contract.DelegationCompleted, c.At, map[string]any{
			"invocation_id": a.ID, "parent_invocation_id": a.ParentID, "tool_call_id": a.CallID, "name": a.Name,
			"outcome": string(over.State), "steps": over.Steps, "duration_ms": max(c.At-a.StartedAt, 0),
		})
		r.AgentPath = a.AgentPath
		c.Audit = append(c.Audit, r)
		e.used.Add(over.Invocation)
		if a.ParentID == "" {
			e.answers = append(e.answers, over.Invocation)
		}
	}
	e.answer()
	return nil
}

// deepestFirst sorts agents so that each follows those below it.
func deepestFirst(open []*agent) []*agent {
	byID := make(map[string]*agent, len(open))
	for _, a := range open {
		byID[a.ID] = a
	}
	depths := make(map[*agent]int, len(open))
	for _, a := range open {
		for up := byID[a.ParentID]; up != nil && depths[a] < len(open); up = byID[up.ParentID] {
			depths[a]++
		}
	}
	sorted := slices.Clone(open)
	slices.SortStableFunc(sorted, func(a, b *agent) int { return cmp.Compare(depths[b], depths[a]) })
	return sorted
}

// cut returns the end of an agent that is active when its run ends, computed from its stored steps.
func (e *ending) cut(a *agent, at int64) overAgent {
	o := overAgent{Invocation: a.Invocation, message: ident.New()}
	usage, stats := transcript.Sum(a.steps)
	o.usage = usage
	o.Totals = record.Totals{TokensIn: transcript.In(usage), TokensOut: usage.Output}
	if stats != nil && stats.Cost != nil {
		o.Totals.CostUSD = &stats.Cost.Total
	}
	o.Steps, o.EndedAt = len(a.steps), at
	o.Output, o.Truncated = contract.ClipAgentText(lastText(a.steps))
	o.State = record.InvocationCancelled
	if e.Outcome != contract.Cancelled {
		o.State = record.InvocationFailed
		o.Error = fault.New(fault.Interrupted, "%s", fmt.Sprintf(
			"kaged was stopped while the agent worked; it had completed %d steps and does not continue.",
			len(a.steps)))
	}
	return o
}

// lastText returns the last non-empty text of a turn.
func lastText(steps []transcript.Step) string {
	for _, s := range slices.Backward(steps) {
		if text := transcript.Content(s.Blocks); text != "" {
			return text
		}
	}
	return ""
}

// answer adds the ends of the agents that the root's last step called as results of its open calls.
func (e *ending) answer() {
	open := transcript.Open(e.steps)
	if len(open) == 0 || len(e.answers) == 0 {
		return
	}
	e.steps = slices.Clone(e.steps)
	last := &e.steps[len(e.steps)-1]
	last.Results = slices.Clone(last.Results)
	for _, call := range open {
		for _, i := range slices.Backward(e.answers) { // newest first: providers may reuse an id
			if i.CallID == call.ID {
				result := i.Result()
				result.Name = cmp.Or(call.Name, result.Name)
				last.Results = append(last.Results, result)
				break
			}
		}
	}
	inOrder(last)
}
