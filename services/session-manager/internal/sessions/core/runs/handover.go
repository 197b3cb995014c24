package runs

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/crash"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/retry"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/transcript"
)

// Continued is the state of a run that was handed over.
type Continued struct {
	record.Handed
	// Steps are the root agent's steps. An unfinished one has its results so far.
	Steps []transcript.Step
	// Invocations are the active agents below the root with their steps, each after its caller.
	Invocations []record.Invocation
	// Answers are the ended children of the root whose results are not stored. Below is the use of all ended agents
	// below the root.
	Answers []record.Invocation
	Below   record.Below
	// Until is the end of the wait for the run's workspace and a harness.
	Until time.Time
	// Prepare gathers the inputs. It fails with unavailable while the workspace is unreachable.
	Prepare func(context.Context) (projects.Inputs, error)
}

// OpenCalls returns the ids of the calls without a result in unfinished steps.
func (c *Continued) OpenCalls() []string {
	var ids []string
	for _, call := range transcript.Open(c.Steps) {
		ids = append(ids, call.ID)
	}
	for _, i := range c.Invocations {
		for _, call := range transcript.Open(i.Kept) {
			ids = append(ids, call.ID)
		}
	}
	return ids
}

// Message returns the complete steps of the root agent as the message of an active run.
func (c *Continued) Message(id string) transcript.Stored {
	done := c.Steps
	if n := len(done); n > 0 && !done[n-1].Done {
		done = done[:n-1]
	}
	return transcript.Stored{
		ID: id, Role: llm.RoleAssistant, Running: true, Blocks: transcript.Compose(done, nil, "", fault.Interrupted),
		Spans: c.Spans,
	}
}

// Agents returns the active agents in the harness's form, the root agent first.
func (c *Continued) Agents(run record.Run) []contract.Continued {
	root := c.agent(record.Invocation{Kept: c.Steps})
	root.Messages, root.WorkedMS = nil, run.Worked.Milliseconds()
	list := []contract.Continued{root}
	for _, i := range c.Invocations {
		one := c.agent(i)
		// A run's clock pauses while an operator is asked, so no agent has worked longer than its run.
		one.WorkedMS = min(max(run.ReleasedAt-i.StartedAt, 0), run.Worked.Milliseconds())
		list = append(list, one)
	}
	return list
}

func (c *Continued) agent(i record.Invocation) contract.Continued {
	out := contract.Continued{
		InvocationID: i.ID, ParentID: i.ParentID, CallID: i.CallID, FilesChanged: i.FilesChanged,
		Calls: c.Calls[i.ID], Spent: c.Spent[i.ID],
	}
	out.Usage, out.Stats = transcript.Sum(i.Kept)
	for _, s := range i.Kept {
		if !s.Done {
			turn := s.Turn.Turn
			out.Open, out.Results = &turn, s.Results
			break
		}
		out.Steps++
		results := make([]llm.Block, len(s.Results))
		for n := range s.Results {
			results[n] = llm.Block{Result: &s.Results[n]}
		}
		out.Messages = append(out.Messages,
			llm.Message{Role: llm.RoleAssistant, Blocks: s.Blocks}, llm.Message{Role: llm.RoleTool, Blocks: results})
	}
	if out.Open == nil {
		return out
	}
	for _, a := range c.Approvals {
		if a.InvocationID == i.ID && a.State != record.ApprovalClosed {
			out.Asked = append(out.Asked, contract.AskedCall{CallID: a.CallID, ApprovalID: a.ID})
		}
	}
	return out
}

// pauses are the pauses between attempts to give the run to a harness.
var pauses = retry.Pauses{First: 20 * time.Millisecond, Last: time.Second, Spread: true}

// startAgain gives a run that was handed over to a harness. It retries until c.Until while the workspace or every
// harness is unavailable.
func (r *Run) startAgain(s Start) (stream Stream, err error) {
	c := r.spec.Continued
	ctx, cancel := context.WithDeadline(r.ctx, c.Until)
	defer cancel()
	for range pauses.Each(ctx) {
		if s.Inputs, err = c.Prepare(ctx); err == nil {
			s.Routes = s.Inputs.Routes
			stream, err = r.Harness.Start(r.ctx, s)
		}
		if !errors.Is(err, fault.Unavailable) || r.ctx.Err() != nil {
			return stream, err
		}
	}
	return nil, err
}

// adopt stores that this process continues a run that was handed over, before the run makes any model request.
func (r *Run) adopt() error {
	c := r.spec.Continued
	if c == nil || r.isAdopted() {
		return nil
	}
	at := now()
	change := record.Change{At: at, Adopted: r.ID()}
	change.Audit = append(change.Audit, about(r.spec.Run, r.spec.Session, r.spec.RequestID, "run.continued", at,
		map[string]any{"steps": len(c.Steps), "agents": len(c.Invocations), "released_at": r.spec.Run.ReleasedAt}))
	if err := r.writer.Commit(r.life, change, crash.RunAdopted); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.adopted = true
	return nil
}

func (r *Run) isAdopted() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.adopted
}

// release adds the handover of the run to a change.
func (k *keeper) release(c *record.Change, released record.RunReleased) {
	c.Released = &released
	c.Audit = append(c.Audit, about(k.spec.Run, k.spec.Session, k.spec.RequestID, "run.handed_over", c.At, map[string]any{
		"message_id": k.spec.Run.MessageID,
	}))
}

// released returns the state to be handed over.
func (l *relay) released() *record.RunReleased {
	out := record.RunReleased{RunID: l.ID()}
	partial := func(a *agent) {
		if n := len(a.steps); n > 0 && !a.steps[n-1].Done && len(a.steps[n-1].Results) > 0 {
			out.Partial = append(out.Partial, record.StepHalf{
				RunID: l.ID(), InvocationID: a.ID, Step: a.steps[n-1].Step, Results: a.steps[n-1].Results,
			})
		}
	}
	partial(&l.root)
	for _, id := range l.order {
		partial(l.below[id])
	}
	return &out
}

// recalled is an approval from before the handover.
type recalled struct {
	record.Approval
	// asked says that the harness waits for the answer.
	asked bool
}

// recall restores the open questions, the agents and the working time of a run that was handed over.
func (r *Run) recall() {
	c := r.spec.Continued
	if c == nil {
		return
	}
	r.recalled = map[string]*recalled{}
	r.worked.worked = r.spec.Run.Worked
	for _, i := range c.Invocations {
		r.agents[i.ID] = make(chan struct{})
	}
	for _, a := range c.Approvals {
		if a.State == record.ApprovalClosed {
			continue
		}
		r.recalled[a.ID] = &recalled{Approval: a}
		if a.State == record.ApprovalPending {
			r.questions[a.ID] = &question{approval: a, answered: make(chan struct{})}
			r.worked.wait()
		}
	}
}

// awaitRecalled starts the expiry of the open questions from before the handover.
func (r *Run) awaitRecalled() {
	r.mu.Lock()
	open := slices.Collect(maps.Values(r.questions))
	r.mu.Unlock()
	for _, q := range open {
		r.await(q)
	}
}

// decide sends a stored answer to the harness. If the question is from before the handover, the answer waits until
// the harness asks again.
func (r *Run) decide(a record.Approval) {
	r.mu.Lock()
	stream := r.stream
	if known := r.recalled[a.ID]; known != nil {
		known.Approval = a
		if !known.asked {
			stream = nil
		}
	}
	r.mu.Unlock()
	if stream != nil {
		// The relay notices a broken stream too.
		_ = stream.Decide(a.ID, contract.Decision{Verdict: verdicts[a.State], Comment: a.Comment})
	}
}

// changedSince is the answer to a question whose subject has changed since the handover.
const changedSince = "The call would have other effects than those that the operator was asked about before kaged " +
	"was restarted, so it was not made. Make it again."

// asksAgain handles a question that was asked before the handover, and reports whether this is one.
func (l *relay) asksAgain(e contract.ApprovalRequested) bool {
	l.mu.Lock()
	known := l.recalled[e.ID]
	if known == nil {
		l.mu.Unlock()
		return false
	}
	known.asked = true
	a, stream := known.Approval, l.stream
	l.mu.Unlock()
	switch {
	case !reflect.DeepEqual(a.Subject, e.Subject):
		if a.State == record.ApprovalPending {
			// Another answer may come first; the call is refused all the same.
			go l.Answer(a.ID, record.Resolution{State: record.ApprovalDenied, Comment: changedSince})
			return true
		}
		_ = stream.Decide(a.ID, contract.Decision{Verdict: contract.Denied, Comment: changedSince})
	case a.State != record.ApprovalPending:
		_ = stream.Decide(a.ID, contract.Decision{Verdict: verdicts[a.State], Comment: a.Comment})
	}
	return true
}
