package sessions

import (
	"context"
	"slices"
	"strings"
	"time"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/crash"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/sessions/core/frames"
	"kaged.dev/services/session-manager/internal/sessions/core/live"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/runs"
)

// strategies are the strategies that a compaction request may name.
var strategies = []string{
	contract.StrategyDrop, contract.StrategySummarize, contract.StrategyDelegate, contract.StrategyCheckpoint,
}

// CompactOrder requests a compaction. Agent is "" for the root agent, Strategy "" for the agent's configured one.
type CompactOrder struct {
	Session, Agent, Strategy string
	Dry                      bool
}

// CompactAnswer is a compaction that has begun, or a proposed one.
type CompactAnswer struct {
	// ID is "" for a proposal.
	ID, Session, Agent, Strategy string
	// Proposed is the last stage of a proposal, nil otherwise. Messages are the stored messages of the conversation.
	Proposed *contract.Compaction
	Messages []ProposedMessage
}

// ProposedMessage is a stored message and its treatment by the proposed compaction.
type ProposedMessage struct {
	record.Message
	// Action is keep, prune or supersede.
	Action string
}

// compactTimeout bounds a manual compaction, including its summarizer.
const compactTimeout = 10 * time.Minute

// Compact starts a compaction of an agent's conversation between runs. A dry run returns the plan without model
// calls and without writes. It fails with validation_failed, not_found, gone, project_not_ready, unavailable, and
// conflict (details.reason run_active or compaction_active).
func (s *Service) Compact(ctx context.Context, o CompactOrder) (CompactAnswer, error) {
	if o.Strategy != "" && !slices.Contains(strategies, o.Strategy) {
		return CompactAnswer{}, check.Field("strategy", "strategy must be one of %s.", strings.Join(strategies, ", "))
	}
	if o.Dry {
		return s.propose(ctx, o)
	}
	l, release, err := s.acquire(ctx, o.Session)
	if err != nil {
		return CompactAnswer{}, err
	}
	of, err := l.Settled(ctx)
	if err == nil {
		err = atRest(of)
	}
	if err != nil {
		release()
		return CompactAnswer{}, err
	}
	done, free := l.Compacting()
	if !free {
		release()
		return CompactAnswer{}, fault.New(fault.Conflict, "Another compaction of this session is in progress; wait for it.").
			With("reason", "compaction_active")
	}
	m := &compacting{
		s: s, l: l, id: "cmp_" + ident.New(), order: o, shaped: l.Shaped(),
		release: func() { done(); release() },
	}
	if m.w, err = s.conversation(ctx, of, o.Agent); err != nil {
		m.release()
		return CompactAnswer{}, err
	}
	if o.Strategy != "" {
		m.w.strategy = o.Strategy
	}
	answer := CompactAnswer{ID: m.id, Session: o.Session, Agent: m.w.agent, Strategy: m.w.strategy}
	select {
	case s.compactions <- m:
		return answer, nil
	case <-ctx.Done():
		m.release()
		return CompactAnswer{}, ctx.Err()
	}
}

// atRest fails if the session has ended, has a pending or active run, or a run to resume.
func atRest(of record.Session) error {
	switch {
	case of.State == record.Ended:
		return record.Gone()
	case of.CurrentRun != "" || of.ResumeRun != "":
		return fault.New(fault.Conflict, "A run is in progress in this session; wait for it or cancel it.").
			With("reason", "run_active").With("current_run", of.CurrentRun)
	}
	return nil
}

// propose returns the proposal of a compaction.
func (s *Service) propose(ctx context.Context, o CompactOrder) (CompactAnswer, error) {
	of, err := s.find(ctx, o.Session)
	if err != nil {
		return CompactAnswer{}, err
	}
	if err := atRest(of); err != nil {
		return CompactAnswer{}, err
	}
	w, err := s.conversation(ctx, of, o.Agent)
	if err != nil {
		return CompactAnswer{}, err
	}
	out, err := s.Compactor.Compact(ctx, w.start, contract.CompactOrder{
		ID: "cmp_" + ident.New(), Agent: w.agent, Strategy: o.Strategy, Dry: true,
	}, asksNone)
	if err != nil {
		return CompactAnswer{}, err
	}
	answer := CompactAnswer{Session: o.Session, Agent: w.agent, Strategy: w.strategy}
	if o.Strategy != "" {
		answer.Strategy = o.Strategy
	}
	answer.Proposed = &contract.Compaction{Trigger: contract.OperatorManual, Strategy: answer.Strategy}
	if n := len(out.Stages); n > 0 {
		answer.Proposed = &out.Stages[n-1]
	}
	for _, m := range w.messages {
		if m.Superseded || m.Role == record.Subagent || m.Metadata != nil && m.Metadata.Kind != "" {
			continue
		}
		p := ProposedMessage{Message: m, Action: "keep"}
		switch {
		case slices.ContainsFunc(answer.Proposed.Spans, func(s contract.Span) bool { return s.MessageID == m.ID }):
			p.Action = "supersede"
		case slices.Contains(out.Pruned, m.ID):
			p.Action = "prune"
		}
		answer.Messages = append(answer.Messages, p)
	}
	return answer, nil
}

// compacting is a manual compaction in progress.
type compacting struct {
	s       *Service
	l       *live.Session
	id      string
	order   CompactOrder
	w       conversation
	shaped  int64
	release func()
}

// CompactSessions carries out manual compactions until ctx ends, and returns when the last has ended.
func (s *Service) CompactSessions(ctx context.Context) {
	for {
		select {
		case m := <-s.compactions:
			s.compactors.Go(func() {
				defer m.release()
				bounded, cancel := context.WithTimeout(ctx, compactTimeout)
				defer cancel()
				m.run(bounded)
			})
		case <-ctx.Done():
			s.compactors.Wait()
			return
		}
	}
}

// run compacts the conversation and stores the outcome.
func (m *compacting) run(ctx context.Context) {
	triggered := contract.Compaction{
		ID: m.id, Phase: contract.CompactionTriggered, Trigger: contract.OperatorManual, Strategy: m.w.strategy,
		Audit: contract.Record{Agent: m.w.agent},
	}
	m.show(ctx, triggered)
	out, err := m.s.Compactor.Compact(ctx, m.w.start, contract.CompactOrder{
		ID: m.id, Agent: m.w.agent, Strategy: m.order.Strategy,
	}, m.grant)
	if len(out.Calls) > 0 {
		crash.At(crash.SummaryPaid)
	}
	if err == nil {
		err = m.l.Update(ctx, "", func(current record.Session) (record.Change, error) {
			c, err := m.change(current, out.Stages)
			m.spent(current, out.Calls, &c)
			return c, err
		}, nil)
	}
	if err == nil {
		crash.At(crash.CompactionStored)
		return
	}
	f := fault.From(err)
	failed := triggered
	failed.Phase, failed.Reason, failed.At = contract.CompactionFailed, f.Msg, now()
	failed.Audit = contract.NewRecord("compaction.failed", m.w.agent, map[string]any{
		"compaction_id": m.id, "session_id": m.order.Session, "attempted_strategy": m.w.strategy, "fallback_strategy": "",
		"reason": f.Msg,
	})
	err = m.l.Update(context.WithoutCancel(ctx), "", func(current record.Session) (record.Change, error) {
		c := record.Change{At: failed.At, Audit: m.records(current, failed.Audit), Cut: []string{m.id}}
		m.spent(current, out.Calls, &c)
		return c, nil
	}, nil)
	if err != nil {
		m.s.Log.Warn("a failed compaction was not recorded", "session", m.order.Session, "error", err)
	}
	m.show(ctx, failed)
}

// change returns the change that stores a compaction. It fails if the session has changed since the compaction
// began.
func (m *compacting) change(current record.Session, stages []contract.Compaction) (record.Change, error) {
	if err := m.unmoved(current); err != nil {
		return record.Change{}, err
	}
	c := record.Change{At: now()}
	for _, stage := range stages {
		c.Audit = append(c.Audit, m.records(current, stage.Audit)...)
		switch stage.Phase {
		case contract.CompactionCompleted:
			done := record.Compaction{Compaction: stage, SessionID: current.ID}
			if err := runs.Compacted(m.s.Renderer, &c, done); err != nil {
				return c, err
			}
		case contract.CompactionFailed, contract.CompactionNoop:
			shown, err := frames.RenderDurable(m.s.Renderer, m.id+string(stage.Phase),
				frames.Told{SessionID: current.ID, Event: stage})
			if err != nil {
				return c, err
			}
			c.Outbox = append(c.Outbox, shown)
		}
	}
	return c, nil
}

// unmoved fails if the conversation has changed since the compaction began.
func (m *compacting) unmoved(current record.Session) error {
	if err := atRest(current); err != nil {
		return err
	}
	if current.MessageCount != int64(len(m.w.messages)) || m.shaped != m.l.Shaped() {
		return fault.New(fault.Conflict, "The conversation changed during its compaction; compact it again.")
	}
	return nil
}

// grant stores a model call with its audit record before the request is sent, if the budgets allow the call and the
// conversation has not changed.
func (m *compacting) grant(ctx context.Context, w contract.CallWanted) contract.CallGranted {
	of := m.w.start.Session
	wanted := record.Spend{
		RunID: m.id, Call: w.Call, SessionID: of.ID, Owner: of.Owner, AgentPath: w.Agent, Model: w.Model,
		Reserved: w.Amount, At: now(),
	}
	metered := m.w.start.Metered()
	err := m.l.Update(ctx, "", func(current record.Session) (record.Change, error) {
		c := record.Change{At: wanted.At}
		for _, r := range w.Audit {
			c.Audit = append(c.Audit, m.records(current, r)...)
		}
		if !metered {
			c.Reserved = []record.Spend{wanted}
		}
		return c, m.unmoved(current)
	}, nil)
	if err == nil && metered {
		cfg := m.w.start.Inputs.Config
		var v record.Verdict
		v, err = m.l.Reserve(ctx, record.Claim{
			Spend: wanted, Unpriced: w.Unpriced, Operator: cfg.Budget(), Since: cfg.BudgetSince(time.Now()),
		})
		if v.Refused != nil {
			err = v.Refused
		}
	}
	if err != nil {
		return contract.CallGranted{Call: w.Call, Err: fault.From(err)}
	}
	crash.At(crash.RequestAudited)
	return contract.CallGranted{Call: w.Call}
}

// spent adds the use of a compaction's model calls to a change: they are paid even if the compaction failed.
func (m *compacting) spent(of record.Session, calls []contract.Event, c *record.Change) {
	for _, e := range calls {
		switch e := e.(type) {
		case contract.CallSettled:
			c.Settled = append(c.Settled, record.Settlement{
				RunID: m.id, Call: e.Call, Used: e.Amount, Estimated: e.Estimated,
			})
		case contract.Record:
			c.Audit = append(c.Audit, m.records(of, e)...)
		}
	}
}

// records returns a harness record as an audit record of the session, in a list that is empty if r has no type.
func (m *compacting) records(of record.Session, r contract.Record) []audit.Record {
	if r.Type == "" {
		return nil
	}
	out := audit.Of(r)
	out.UserID, out.ProjectID, out.SessionID = of.Owner, of.ProjectID, of.ID
	out.RequestID = m.w.start.RequestID
	return []audit.Record{out.Clean()}
}

// show emits the frame of a stage.
func (m *compacting) show(ctx context.Context, stage contract.Compaction) {
	f, err := frames.Render(m.s.Renderer, nil, frames.Told{SessionID: m.order.Session, Event: stage})
	if err == nil {
		err = m.l.Emit(ctx, f)
	}
	if err != nil {
		m.s.Log.Debug("a stage of a compaction was not shown", "session", m.order.Session, "error", err)
	}
}
