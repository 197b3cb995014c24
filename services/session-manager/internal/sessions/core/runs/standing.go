package runs

import (
	"context"

	"kaged.dev/pkg/contract"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
)

// Standing looks up standing approvals.
type Standing interface {
	// InForce returns the valid standing approvals for a tool of an agent in a session, newest first.
	InForce(ctx context.Context, s record.Session, agent, tool string) ([]record.Standing, error)
}

// covering returns the standing approval that allows a call, nil if an operator must be asked. It reads the store
// at each call, so that a revocation takes effect at once. If that fails, the operator is asked.
func (l *relay) covering(of contract.Subject) *record.Standing {
	if len(of.Standing) == 0 {
		return nil
	}
	list, err := l.Deps.Standing.InForce(l.life, l.spec.Session, of.Agent, of.Tool)
	if err != nil {
		l.Log.Warn("standing approvals cannot be looked up; the operator is asked", "run", l.ID(), "error", err)
		return nil
	}
	for i := range list {
		if list[i].Covers(of) {
			return &list[i]
		}
	}
	return nil
}

// allowed adds an approval that a standing approval answers to the change that stores it: no operator is asked, and
// clients receive only the answer.
func (r *Run) allowed(c *record.Change, q *question) error {
	a := q.approval.Resolved(
		record.Resolution{State: record.ApprovalApproved, By: q.by.CreatedBy, Standing: q.by}, q.approval.RequestedAt,
	)
	c.Approvals, c.Answered, c.StandingUsed = append(c.Approvals, a), &a, q.by.ID
	c.Audit = append(c.Audit, resolved(r.spec.Session, r.spec.RequestID, a))
	return announce(r.Renderer, c, a.ID, resolvedFrame(a))
}

// tellAllowed sends the stored answer of a standing approval to the harness.
func (r *Run) tellAllowed(id string) {
	r.mu.Lock()
	stream := r.stream
	r.mu.Unlock()
	if stream != nil {
		_ = stream.Decide(id, contract.Decision{Verdict: contract.Approved}) // the relay notices a broken stream too
	}
}

// granted returns the audit record of a new standing approval.
func granted(spec Spec, s record.Standing, a record.Approval) audit.Record {
	return spec.Session.Audited(audit.Record{
		TS: a.ResolvedAt, EventType: "approval.standing_granted", RequestID: spec.RequestID, RunID: a.RunID,
		AgentPath: a.Subject.Agent,
		Payload: map[string]any{
			"standing_approval_id": s.ID, "approval_id": a.ID, "scope": s.Scope(), "kind": string(s.Kind),
			"covers": s.Sentence(),
			"hash":   a.Hash(), "granted_by": s.CreatedBy,
		},
	})
}
