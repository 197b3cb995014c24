package runs

import (
	"slices"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/llm"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
	"kaged.dev/services/session-manager/internal/sessions/core/frames"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/transcript"
)

// agent is an active agent: the root agent, with an empty invocation id, or one below it.
type agent struct {
	record.Invocation
	steps []transcript.Step
	// settled are the uses of model calls whose turn is not stored yet.
	settled []record.Settlement
	// begun is closed when the agent's beginning is on disk and the writer has its frame; nil after that was awaited.
	begun chan struct{}
}

// errUnknownAgent is the failure of a harness that reports an event of an agent that it did not start or has ended.
var errUnknownAgent = fault.New(fault.Internal, "The harness reported an event of an agent that is not active.")

// CancelInvocation asks an agent below the root, and those below it, to stop, and returns at once. The channel is
// closed when the agent's end is stored or the run is over. It is nil for an agent that is not active.
func (r *Run) CancelInvocation(id, reason string) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	over := r.agents[id]
	if over != nil && r.stream != nil {
		go r.stream.CancelInvocation(id, reason) // Sending may block on the network; it ends with the stream.
	}
	return over
}

// child handles an event of an agent below the root.
func (l *relay) child(id string, event contract.Event) error {
	if e, ok := event.(contract.AgentStarted); ok {
		return l.agentStarted(id, e)
	}
	a := l.below[id]
	if a == nil {
		return errUnknownAgent
	}
	if !unseen(event) {
		if err := l.begun(a); err != nil {
			return err
		}
	}
	switch e := event.(type) {
	case contract.Delta:
		part := "text"
		if e.Thinking {
			part = "thinking"
		}
		return l.childText(frames.SubagentOutput{InvocationID: id, Stream: "stdout", Part: part}, e.Text)
	case contract.ToolStarted:
		return l.emit(frames.SubagentToolCall{InvocationID: id, Call: e.Call})
	case contract.ToolOutput:
		return l.childText(frames.SubagentOutput{InvocationID: id, Stream: e.Stream, Part: "tool", ToolCallID: e.CallID},
			e.Text)
	case contract.ToolFinished:
		l.took(a, e)
		return l.emit(frames.SubagentToolResult{InvocationID: id, Result: e.Result})
	case contract.Retracted:
		l.record(e.Audit)
		return l.emit(frames.SubagentRetract{InvocationID: id, Step: e.Step, Reason: e.Reason})
	case contract.AgentEnded:
		return l.agentEnded(a, e)
	}
	return l.step(a, event)
}

// childText shows the output of an agent below the root, or of one of its tools.
func (l *relay) childText(p frames.SubagentOutput, text string) error {
	for _, p.Text = range clip.JSONPieces(text, frames.MaxText) {
		if err := l.emit(p); err != nil {
			return err
		}
	}
	return nil
}

// unseen reports whether an event has no frame.
func unseen(event contract.Event) bool {
	switch event.(type) {
	case contract.CallWanted, contract.Record, contract.MessageStart:
		return true
	}
	return false
}

// begun waits until the beginning of an agent is on disk and the writer has its frame, so that the agent's own
// frames follow it.
func (l *relay) begun(a *agent) error {
	if a.begun == nil {
		return nil
	}
	select {
	case <-a.begun: // already stored, with the agent's first request
		a.begun = nil
		return nil
	default:
	}
	l.keep(job{now: true, wakes: true})
	err := l.await(a.begun)
	a.begun = nil
	return err
}

// agentStarted queues the beginning of an invocation to be stored and shown. It does not wait for either, so that
// the agent's first model call, which follows at once, shares the commit.
func (l *relay) agentStarted(id string, e contract.AgentStarted) error {
	if parent := l.below[e.ParentID]; id == "" || l.below[id] != nil || e.ParentID != "" && parent == nil {
		return errUnknownAgent
	}
	a := &agent{Invocation: record.Invocation{
		ID: id, SessionID: l.spec.Session.ID, RunID: l.ID(), ParentID: e.ParentID, CallID: e.CallID, Name: e.Name,
		AgentPath: e.Audit.Agent,
		State:     record.InvocationRunning, Cage: e.Cage, Policy: policyOf(l.spec.Inputs.Snapshot,
			e.Audit.Agent), Tools: e.Tools, Prompt: e.Prompt,
		StartedAt: e.StartedAt,
	}}
	if a.Cage != contract.Caged && a.Cage != contract.CagePending {
		a.Cage = contract.Uncaged
	}
	l.below[id] = a
	l.order = append(l.order, id)
	l.mu.Lock()
	l.agents[id] = make(chan struct{})
	l.mu.Unlock()
	a.begun = make(chan struct{})
	l.keep(job{
		started: []record.Invocation{a.Invocation}, audit: l.abouts(e.Audit), done: []chan struct{}{a.begun},
	})
	return nil
}

// policyOf returns the policy of an agent's cage; it may be nil.
func policyOf(s *projects.Snapshot, path string) *dsl.Cage {
	for _, a := range s.Agents {
		if a.Path == path {
			return a.Cage
		}
	}
	return nil
}

// outcomesBelow are the states of invocations by outcome.
var outcomesBelow = map[contract.Outcome]record.InvocationState{
	contract.Completed: record.InvocationCompleted, contract.Failed: record.InvocationFailed,
	contract.Cancelled: record.InvocationCancelled,
}

// agentEnded queues the end of an invocation to be stored and shown. It does not wait for either: if the call was
// the last of its step, the call's result follows at once and shares the commit. Frames emitted meanwhile are held
// back, so that they follow.
func (l *relay) agentEnded(a *agent, e contract.AgentEnded) error {
	for _, other := range l.below {
		if other.ParentID == a.ID {
			return fault.New(fault.Internal, "The harness ended an agent before those that it had called.")
		}
	}
	a.State = outcomesBelow[e.Outcome]
	a.Output, a.Truncated = contract.ClipAgentText(e.Text)
	a.Truncated = a.Truncated || e.Truncated
	a.Error, a.Steps, a.EndedAt = e.Err, len(a.steps), e.EndedAt
	a.FilesChanged = e.FilesChanged[:min(len(e.FilesChanged), contract.MaxFilesChanged)]
	a.Totals = record.Totals{TokensIn: transcript.In(e.Usage), TokensOut: e.Usage.Output}
	if e.Cost != nil {
		a.Totals.CostUSD = &e.Cost.Total
	}
	if a.State == record.InvocationFailed && a.Error == nil {
		a.Error = fault.New(fault.Internal, "The agent failed and the harness did not say why.")
	}
	delete(l.below, a.ID)
	l.order = slices.DeleteFunc(l.order, func(id string) bool { return id == a.ID })
	l.used.Add(a.Invocation)
	if a.ParentID == "" {
		l.answers = append(l.answers, a.Invocation)
	}
	end := overAgent{Invocation: a.Invocation, usage: e.Usage, message: ident.New(), closed: l.questionsOf(a.ID)}
	done := make(chan struct{})
	l.ends = append(l.ends, done)
	l.keep(job{
		ended: []overAgent{end}, audit: l.abouts(e.Audit), files: changed(l.below[a.ParentID], a.FilesChanged),
		done: []chan struct{}{done},
	})
	go l.closeAgent(a.ID, done)
	return nil
}

// closeAgent wakes the waiters for the end of an agent once the end is on disk. It ends with the run.
func (r *Run) closeAgent(id string, stored <-chan struct{}) {
	select {
	case <-stored:
	case <-r.life.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if over := r.agents[id]; over != nil {
		close(over)
		delete(r.agents, id)
	}
}

// follows reports whether an event follows the end of an agent at once and is stored with it: the last result of a
// step, the end of the step, and the next request. Audit records have no frame.
func (l *relay) follows(h contract.Happening) bool {
	a := &l.root
	if h.InvocationID != "" {
		if a = l.below[h.InvocationID]; a == nil {
			return false
		}
	}
	switch e := h.Event.(type) {
	case contract.Record, contract.AuditMoved, contract.StepDone, contract.CallWanted:
		return true
	case contract.ToolFinished:
		n := len(a.steps)
		if n == 0 || a.steps[n-1].Step != e.Step {
			return false
		}
		calls := 0
		for _, b := range a.steps[n-1].Blocks {
			if b.Call != nil {
				calls++
			}
		}
		return len(a.steps[n-1].Results)+1 == calls
	}
	return false
}

// settle waits until the ends of agents are on disk and the writer has their frames, then shows the held frames.
// With hurry the keeper commits without waiting for further jobs.
func (l *relay) settle(hurry bool) error {
	if len(l.ends) == 0 {
		return nil
	}
	if hurry {
		l.keep(job{now: true, wakes: true})
	}
	for _, done := range l.ends {
		if err := l.await(done); err != nil {
			return err
		}
	}
	held := l.held
	l.ends, l.held = nil, nil
	for _, p := range held {
		if err := l.emit(p); err != nil {
			return err
		}
	}
	return nil
}

// settleAll waits until the beginnings and ends of agents are on disk, because the run is over. If the session is
// lost to this process, its next holder ends them.
func (l *relay) settleAll() {
	if l.settle(true) != nil {
		return
	}
	for _, id := range l.order {
		if l.begun(l.below[id]) != nil {
			return
		}
	}
}

// await waits until a job is on disk and the writer has its frames.
func (l *relay) await(done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-l.life.Done():
		return errAbandoned
	}
}

// closeAgents wakes all waiters for the end of an agent: the run is over.
func (r *Run) closeAgents() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, over := range r.agents {
		close(over)
	}
	r.agents = nil
}

// questionsOf removes and returns the open questions of an agent that has ended.
func (r *Run) questionsOf(id string) []record.Approval {
	r.mu.Lock()
	defer r.mu.Unlock()
	var left []record.Approval
	for _, q := range r.questions {
		if q.approval.InvocationID == id {
			left = append(left, q.approval)
			delete(r.questions, q.approval.ID)
			r.worked.resume()
			close(q.answered)
		}
	}
	return left
}

// overAgent is an ended invocation with everything to be stored and shown about its end.
type overAgent struct {
	record.Invocation
	usage llm.Usage
	// message is the id of the message with its last text.
	message string
	// closed are its open approvals.
	closed []record.Approval
}

// write adds the end of an invocation to the change that stores it.
func (o overAgent) write(render frames.Renderer, c *record.Change, s record.Session, requestID string) error {
	c.Ended = append(c.Ended, o.Invocation)
	for _, a := range o.closed {
		c.Closed = append(c.Closed, a.Resolved(record.Resolution{State: record.ApprovalClosed}, c.At))
	}
	if err := closing(render, c, s, requestID, o.closed); err != nil {
		return err
	}
	if o.Output != "" {
		c.Messages = append(c.Messages, record.Message{
			ID: o.message, SessionID: o.SessionID, Role: record.Subagent, Content: o.Output, RunID: o.RunID,
			AgentPath:            o.AgentPath,
			SubagentInvocationID: o.ID, Cost: o.Totals.CostUSD, CreatedAt: c.At,
		})
	}
	return announce(render, c, o.ID, frames.SubagentEnd{
		InvocationID: o.ID, Exit: o.State.Exit(), Outcome: string(o.State), Error: o.Error, Steps: o.Steps, Usage: o.usage,
		CostUSD: o.Totals.CostUSD, FilesChanged: o.FilesChanged, EndedAt: o.EndedAt,
	})
}

// began adds the beginning of an invocation to the change that stores it.
func began(render frames.Renderer, c *record.Change, i record.Invocation) error {
	c.Invocations = append(c.Invocations, i)
	return announce(render, c, i.ID, frames.SubagentStart{
		InvocationID: i.ID, ParentID: i.ParentID, RunID: i.RunID, ToolCallID: i.CallID, Name: i.Name, AgentPath: i.AgentPath,
		CageStatus: string(i.Cage), StartedAt: i.StartedAt,
	})
}
