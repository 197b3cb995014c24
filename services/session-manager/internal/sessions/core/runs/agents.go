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

// agent is an agent at work: the root, with an invocation without id, or one below it.
type agent struct {
	record.Invocation
	steps []transcript.Step
	// settled are calls without a stored turn yet.
	settled []record.Settlement
	// begun is closed when the beginning is on disk and its frame out; nil from then on.
	begun chan struct{}
}

// errUnknownAgent is a harness that reports an event of an agent that it did not start, or that has ended.
var errUnknownAgent = fault.New(fault.Internal, "The harness reported an event of an agent that is not at work.")

// CancelInvocation asks an agent below the root to stop, and those that it called, and returns at once; the channel
// is closed when its end is stored, or the run is over. It returns nil for one that is not at work.
func (r *Run) CancelInvocation(id, reason string) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	over := r.agents[id]
	if over != nil && r.stream != nil {
		go r.stream.CancelInvocation(id, reason) // it may wait for the network; it ends with the stream
	}
	return over
}

// child takes in an event of an agent below the root.
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
		return l.emit(frames.SubagentToolResult{InvocationID: id, Result: e.Result, DurationMS: e.DurationMS})
	case contract.Retracted:
		l.record(e.Audit)
		return l.emit(frames.SubagentRetract{InvocationID: id, Step: e.Step, Reason: e.Reason})
	case contract.AgentEnded:
		return l.agentEnded(a, e)
	}
	return l.step(a, event)
}

// childText shows the output of an agent below the root, or of a tool of it.
func (l *relay) childText(p frames.SubagentOutput, text string) error {
	for _, p.Text = range clip.JSONPieces(text, frames.MaxText) {
		if err := l.emit(p); err != nil {
			return err
		}
	}
	return nil
}

// unseen reports whether an event shows clients nothing.
func unseen(event contract.Event) bool {
	switch event.(type) {
	case contract.CallWanted, contract.Record, contract.MessageStart:
		return true
	}
	return false
}

// begun waits until the beginning of an agent is on disk and its frame out, so that the agent's own follow.
func (l *relay) begun(a *agent) error {
	if a.begun == nil {
		return nil
	}
	select {
	case <-a.begun: // with its first request
		a.begun = nil
		return nil
	default:
	}
	l.keep(job{now: true, wakes: true})
	err := l.await(a.begun)
	a.begun = nil
	return err
}

// agentStarted stores and shows the beginning of an invocation. It waits for neither: the agent's first model call,
// which comes at once, shares its commit.
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

// outcomesBelow are the states of invocations that ended so.
var outcomesBelow = map[contract.Outcome]record.InvocationState{
	contract.Completed: record.InvocationCompleted, contract.Failed: record.InvocationFailed,
	contract.Cancelled: record.InvocationCancelled,
}

// agentEnded stores and shows the end of an invocation. It waits for neither: the result of its call, which comes at
// once, shares its commit if it is the last of its step. What is shown meanwhile is held back, so that it follows.
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

// closeAgent lets those go on that wait for the end of an agent, once it is on disk. It ends with the run.
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

// follows reports whether an event comes at once after the end of an agent and is stored with it: the last result of a
// step, the end of the step, and the next request. Records are shown to no client.
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

// settle waits until the ends of agents are on disk and their frames out, and shows what was held back. With hurry the
// keeper waits for no company.
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

// settleAll waits for the beginnings and ends of agents that are on their way to disk: the run is over. If the
// session is lost to this process they are left to its next holder.
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

// await waits until a job is on disk and its frames are in the writer's hands.
func (l *relay) await(done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-l.life.Done():
		return errAbandoned
	}
}

// closeAgents lets those go on that wait for the end of an agent: the run is over.
func (r *Run) closeAgents() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, over := range r.agents {
		close(over)
	}
	r.agents = nil
}

// questionsOf takes the open questions of an agent that has ended.
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

// overAgent is an invocation that is over, with its stored and shown results.
type overAgent struct {
	record.Invocation
	usage llm.Usage
	// message is the id of the message that keeps its text.
	message string
	// closed are its open requests for approval.
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
