package runs

import (
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/crash"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/sessions/core/frames"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
)

var verdicts = map[record.ApprovalState]contract.Verdict{
	record.ApprovalApproved: contract.Approved, record.ApprovalDenied: contract.Denied,
	record.ApprovalExpired: contract.Expired,
}

// question is an open approval.
type question struct {
	approval record.Approval
	// answered is closed when the question is no longer open.
	answered chan struct{}
	// by is the standing approval that allows the call, nil if an operator is asked.
	by *record.Standing
}

// Answer answers a pending approval. When it returns, the answer is stored and sent to the harness. It fails with
// conflict if the approval was answered or has expired, or the run is ending, and with stale_lease or unavailable
// if the session leaves this process meanwhile.
func (r *Run) Answer(id string, how record.Resolution) (record.Approval, error) {
	q, err := r.claim(id)
	if err != nil {
		return record.Approval{}, err
	}
	defer r.asking.Done()
	at := now()
	answered := q.approval.Resolved(how, at)
	c := record.Change{
		At: at, Answered: &answered, Audit: []audit.Record{resolved(r.spec.Session, r.spec.RequestID, answered)},
		Standing: how.Standing,
	}
	if how.Standing != nil {
		c.Audit = append(c.Audit, granted(r.spec, *how.Standing, answered))
	}
	if err := announce(r.Renderer, &c, id, resolvedFrame(answered)); err != nil {
		return record.Approval{}, err
	}
	// The commit does not end with the caller's context.
	if err := r.writer.Commit(r.life, c, crash.ApprovalAnswered); err != nil {
		if r.life.Err() != nil {
			err = fault.Wrap(err, fault.Unavailable, "The session is moving to another process; try again shortly.").
				With("subsystem", "session-manager")
		}
		return record.Approval{}, err
	}
	r.decide(answered)
	return answered, nil
}

// claim removes a question from the open ones. [Run.asking] counts it until the harness has the answer.
func (r *Run) claim(id string) (*question, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.questions[id]
	if q == nil {
		return nil,
			fault.New(fault.Conflict, "This request can no longer be answered: it was answered already, or its run is ending.")
	}
	delete(r.questions, id)
	r.worked.resume()
	close(q.answered)
	r.asking.Add(1)
	return q, nil
}

// closeQuestions removes and returns all open questions, because the run ends. No question is accepted from then
// on.
func (r *Run) closeQuestions() []record.Approval {
	r.mu.Lock()
	var left []record.Approval
	for _, q := range r.questions {
		left = append(left, q.approval)
		close(q.answered)
	}
	r.questions = nil
	r.mu.Unlock()
	r.asking.Wait()
	return left
}

// ask handles an agent's question, to be stored.
func (l *relay) ask(invocation string, e contract.ApprovalRequested) {
	if l.asksAgain(e) {
		return
	}
	at := now()
	q := &question{answered: make(chan struct{}), approval: record.Approval{
		ID: e.ID, SessionID: l.spec.Session.ID, RunID: l.ID(), InvocationID: invocation, CallID: e.CallID,
		State:   record.ApprovalPending,
		Subject: e.Subject, RequestedAt: at, ExpiresAt: at + l.ApprovalTimeout.Milliseconds(),
	}}
	j := job{question: q, now: true}
	for _, record := range e.Audit {
		if record.Type == approvalRequested {
			record.Payload["approval_id"], record.Payload["expires_at"] = e.ID, q.approval.ExpiresAt
		}
		j.audit = append(j.audit, l.about(record))
	}
	if q.by = l.covering(e.Subject); q.by != nil {
		l.keep(j)
		return
	}
	l.mu.Lock()
	l.questions[e.ID] = q
	l.worked.wait()
	l.mu.Unlock()
	l.keep(j)
}

// asked adds a question to the change that stores it.
func (r *Run) asked(c *record.Change, q *question) error {
	if q.by != nil {
		return r.allowed(c, q)
	}
	a := q.approval
	c.Approvals = append(c.Approvals, a)
	return announce(r.Renderer, c, a.ID, frames.ApprovalRequested{
		ApprovalID: a.ID, RunID: a.RunID, InvocationID: a.InvocationID, MessageID: r.spec.Run.MessageID, ToolCallID: a.CallID,
		Subject:     a.Subject,
		RequestedAt: a.RequestedAt, ExpiresAt: a.ExpiresAt,
	})
}

// await refuses the call of a stored question at its expiry, or allows it at once if a standing approval covers it.
func (r *Run) await(q *question) {
	if q.by != nil {
		r.tellAllowed(q.approval.ID)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.questions[q.approval.ID] != q {
		return // already answered, or the run is ending
	}
	r.asking.Go(func() {
		timer := time.NewTimer(time.Until(time.UnixMilli(q.approval.ExpiresAt)))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-q.answered:
			return
		case <-r.life.Done():
			return
		}
		_, err := r.Answer(q.approval.ID, record.Resolution{State: record.ApprovalExpired})
		if err != nil && fault.CodeOf(err) != fault.Conflict && r.life.Err() == nil {
			r.Log.Error("a request for approval did not expire", "run", r.ID(), "approval", q.approval.ID, "error", err)
		}
	})
}

// The audit events of approvals. The tool runner creates the first.
const approvalRequested = "tool.approval.requested"

var approvalEvents = map[record.ApprovalState]string{
	record.ApprovalApproved: "tool.approval.granted", record.ApprovalDenied: "tool.approval.denied",
	record.ApprovalExpired: "tool.approval.expired", record.ApprovalClosed: "tool.approval.closed",
}

// resolved returns the audit record of the end of an approval.
func resolved(s record.Session, requestID string, a record.Approval) audit.Record {
	payload := map[string]any{
		"approval_id": a.ID, "tool_name": a.Subject.Tool, "tool_call_id": a.CallID, "caller": a.Subject.Agent,
		"waited_ms": a.ResolvedAt - a.RequestedAt,
	}
	if a.ResolvedBy != "" {
		payload["resolved_by"] = a.ResolvedBy
	}
	if a.Comment != "" {
		payload["comment"] = a.Comment
	}
	if a.StandingID != "" {
		payload["standing_approval_id"] = a.StandingID
	}
	r := audit.Record{
		TS: a.ResolvedAt, EventType: approvalEvents[a.State], UserID: s.Owner, RequestID: requestID, ProjectID: s.ProjectID,
		SessionID: s.ID,
		RunID:     a.RunID, AgentPath: a.Subject.Agent, Payload: payload,
	}
	return r.Clean()
}

//convert:one resolvedFrame record.Approval frames.ApprovalResolved ID=ApprovalID CallID=ToolCallID

// closing adds the closing of open questions to the change that ends a run or an agent.
func closing(
	render frames.Renderer, c *record.Change, s record.Session, requestID string, left []record.Approval,
) error {
	for _, a := range left {
		a = a.Resolved(record.Resolution{State: record.ApprovalClosed}, c.At)
		c.Audit = append(c.Audit, resolved(s, requestID, a))
		if err := announce(render, c, a.ID, resolvedFrame(a)); err != nil {
			return err
		}
	}
	return nil
}
