package loop

import (
	"context"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/llm"
)

// at returns the state of an invocation from before the hand-over, by its parent and the parent's call; empty
// arguments name the root agent. It is nil for a new invocation.
func (s Start) at(parent, call string) *contract.Continued {
	for i := range s.Continued {
		c := &s.Continued[i]
		if c.ParentID == parent && c.CallID == call && (call != "" || c.InvocationID == "") {
			return c
		}
	}
	return nil
}

// proceed restores an invocation that was handed over and finishes its open step. It reports whether another step
// follows; v.step is then the number of the last finished step.
func (v *invocation) proceed(ctx context.Context) (more bool, err error) {
	c := v.continued
	if c == nil {
		return true, nil
	}
	v.step, v.calls, v.settled = c.Steps, c.Calls, c.Calls
	v.fin.Usage, v.fin.Stats, v.fin.Steps = c.Usage, c.Stats, c.Steps
	if c.Stats != nil {
		v.begun, v.unpriced = true, c.Stats.Cost == nil
		v.streamed = time.Duration(c.Stats.Duration * float64(time.Millisecond))
	}
	v.begun = v.begun || c.Steps > 0 || c.Open != nil
	for _, m := range v.history {
		if m.Role == llm.RoleAssistant {
			v.said = textOf(m.Blocks)
		}
	}
	v.changed(c.FilesChanged...)
	for _, s := range c.Spent {
		v.account.Charge(s.Agent, s.Amount)
	}
	if c.Open == nil {
		return true, nil
	}
	v.step++
	v.fin.Steps, v.fin.Stop = v.step, c.Open.Stop
	if said := textOf(c.Open.Blocks); said != "" {
		v.said = said
	}
	calls := callsOf(c.Open.Blocks)
	for _, call := range calls {
		v.callIDs[call.ID] = struct{}{}
	}
	return v.finishStep(ctx, c.Open.Blocks, calls)
}

// known restores the started calls and the results of a turn that was handed over. It reports whether the turn is on
// disk.
func (v *invocation) known(t *toolTurn) bool {
	c := v.continued
	if c == nil || c.Open == nil || c.Open.Step != t.step {
		return false
	}
	for i := range t.calls {
		one := &t.calls[i]
		one.started = v.start.at(v.id, one.call.ID) != nil
		for _, a := range c.Asked {
			one.started = one.started || a.CallID == one.call.ID
		}
		for j := range c.Results {
			if r := &c.Results[j]; r.CallID == one.call.ID {
				one.outcome, one.known, one.started, one.told = &ToolOutcome{Content: r.Content}, r, true, true
			}
		}
	}
	return true
}

// approvalID returns the id for a question about a call: the one from before the hand-over, or a new one.
func (v *invocation) approvalID(call string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if c := v.continued; c != nil && c.Open != nil && c.Open.Step == v.step {
		for i := range c.Asked {
			if a := &c.Asked[i]; a.CallID == call && a.ApprovalID != "" {
				id := a.ApprovalID
				a.ApprovalID = "" // a further question about the call gets a new id
				return id
			}
		}
	}
	return ident.New()
}
