package sessions

import (
	"context"
	"errors"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/llm"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/sessions/core/frames"
	"kaged.dev/services/session-manager/internal/sessions/core/live"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/runs"
)

// Full is the reason for which a run waits for a slot.
type Full struct {
	// Reason is record.PerProject or record.PerOperator.
	Reason string
	// Running is the number of sessions with an active run in that scope, Limit the largest number.
	Running, Limit int
}

// slot returns the limits from the operator's configuration.
func (s *Service) slot(ctx context.Context, owner string) *record.Slot {
	perProject, perOperator := s.Limits(ctx, owner)
	return &record.Slot{PerProject: perProject, PerOperator: perOperator}
}

// wait stores the message with a run that waits for a slot.
func (p *posting) wait(l *live.Session, why error) error {
	full := record.NoSlotOf(why)
	return l.Update(p.ctx, "", func(current record.Session) (record.Change, error) {
		c, err := p.decide(current, record.Throttled)
		if err != nil {
			return c, err
		}
		c.Slot, c.NewRun.State, c.NewRun.StartedAt, c.NewRun.Cage = nil, record.RunPending, 0, ""
		queued := about(p.ctx, current, "run.queued", map[string]any{
			"reason": full.Reason, "running_count": full.Running, "limit": full.Limit,
		})
		queued.RunID = p.run
		c.Audit = append(c.Audit, queued)
		d, err := frames.RenderDurable(
			p.s.Renderer, p.run+".queued", frames.SessionState{State: string(c.Session.State)},
		)
		c.Outbox = []frames.Durable{d}
		p.full = &Full{full.Reason, full.Running, full.Limit}
		return c, err
	}, nil)
}

// Resumed is a run that waited and has begun.
type Resumed struct {
	SessionID, RunID string
	At               int64
}

// Resume starts the run of a queued session if a slot is free. It fails with not_found and gone, with conflict for
// a session that is not queued (details.current_state) and while no slot is free (details reason, running_count,
// limit), and as Post does.
func (s *Service) Resume(ctx context.Context, id string) (Resumed, error) {
	l, release, err := s.acquire(ctx, id)
	if err != nil {
		return Resumed{}, err
	}
	defer release()
	current, err := l.Settled(ctx)
	if err == nil {
		err = queued(current)
	}
	if err != nil {
		return Resumed{}, err
	}
	if err := s.hasSlot(ctx, current); err != nil {
		return Resumed{}, err
	}
	run, err := s.Store.Run(ctx, id, current.CurrentRun)
	if err != nil {
		return Resumed{}, err
	}
	p := &posting{
		ctx: ctx, s: s, in: Post{SessionID: id}, requestID: ident.CallerFrom(ctx).RequestID,
		message: run.TriggerMessageID, run: run.ID, answer: run.MessageID,
	}
	for range postTries {
		if err := p.prepare(l); err != nil {
			return Resumed{}, err
		}
		err = p.begin(l, func(current record.Session) (record.Change, error) { return p.resume(current, run) })
		if !errors.Is(err, errOvertaken) {
			break
		}
	}
	if err != nil {
		return Resumed{}, err
	}
	p.posted()
	return Resumed{SessionID: id, RunID: run.ID, At: p.spec.Run.StartedAt}, nil
}

// hasSlot fails if no slot is free, so that the harness does not prepare a run in vain. The start itself checks
// again.
func (s *Service) hasSlot(ctx context.Context, of record.Session) error {
	running, _, err := s.Store.Running(ctx, of.Owner)
	if err != nil {
		return err
	}
	slot, all := s.slot(ctx, of.Owner), 0
	for _, n := range running {
		all += n
	}
	switch n := running[of.ProjectID]; {
	case n >= slot.PerProject:
		return record.NoSlot(record.FullSlots{Reason: record.PerProject, Running: n, Limit: slot.PerProject})
	case all >= slot.PerOperator:
		return record.NoSlot(record.FullSlots{Reason: record.PerOperator, Running: all, Limit: slot.PerOperator})
	}
	return nil
}

// resume returns the change that starts a run that waited for a slot.
func (p *posting) resume(current record.Session, run record.Run) (record.Change, error) {
	if err := queued(current); err != nil {
		return record.Change{}, err
	}
	if current.CurrentRun != run.ID || current.MessageCount != int64(len(p.history.Messages)) {
		return record.Change{}, errOvertaken
	}
	next, err := current.State.On(record.Resumed)
	if err != nil {
		return record.Change{}, err
	}
	at := now()
	run.State, run.StartedAt, run.PromptHashes = record.RunRunning, at, p.inputs.PromptHashes
	run.Cage = runs.CageAtStart(p.inputs.Snapshot)
	c := record.Change{At: at, StartRun: &run, Slot: p.s.slot(p.ctx, current.Owner), Session: record.Patch{State: next}}
	resumed := about(p.ctx, current, "run.dequeued", map[string]any{"message_id": run.TriggerMessageID})
	resumed.RunID = run.ID
	c.Audit = append([]audit.Record{resumed}, p.prompts(current)...)
	first := c.Recall(current)
	p.spec = runs.Spec{
		First: first, Session: c.On(current), Run: run, RequestID: p.requestID, Inputs: p.inputs, Tries: 1,
		Stored: p.history.Stored, Ledger: p.ledger,
	}
	err = runs.Announce(p.s.Renderer, &c, run, p.inputs.HeldPrompts, current.BlockedReason)
	return c, err
}

// queued fails with conflict for a session that is not queued.
func queued(of record.Session) error {
	if of.State != record.Queued {
		return fault.New(fault.Conflict, "Session is not in queued state.").With("current_state", string(of.State))
	}
	return nil
}

// Discarded is a withdrawn message.
type Discarded struct {
	SessionID, MessageID, RunID string
	At                          int64
}

// Discard withdraws the messages of a queued session; they stay in the history as superseded. It fails with
// not_found, gone, and conflict (details.current_state) for a session that is not queued.
func (s *Service) Discard(ctx context.Context, id string) (Discarded, error) {
	l, release, err := s.acquire(ctx, id)
	if err != nil {
		return Discarded{}, err
	}
	defer release()
	return s.discard(ctx, l)
}

func (s *Service) discard(ctx context.Context, l *live.Session) (Discarded, error) {
	var out Discarded
	err := l.Update(ctx, "", func(current record.Session) (record.Change, error) {
		if err := queued(current); err != nil {
			return record.Change{}, err
		}
		next, err := current.State.On(record.Discarded)
		if err != nil {
			return record.Change{}, err
		}
		withdrawn, err := s.Store.PostedTo(ctx, current.ID, current.CurrentRun)
		if err != nil {
			return record.Change{}, err
		}
		out = Discarded{current.ID, current.CurrentMessage, current.CurrentRun, now()}
		c := record.Change{At: out.At, Session: record.Patch{State: next}, Superseded: withdrawn}
		r := about(ctx, current, "message.discarded", map[string]any{"message_id": current.CurrentMessage})
		r.RunID = current.CurrentRun
		c.Audit = []audit.Record{r}
		if err := s.dropPending(ctx, &c, current); err != nil {
			return c, err
		}
		idle := frames.SessionState{State: string(next), BlockedReason: current.BlockedReason}
		return c, s.show(&c, current.CurrentRun+".discarded.", idle)
	}, nil)
	return out, err
}

// dropPending adds the end of a queued session's run, with its frames, to a change. Like every run's end that
// includes a message.end, though the run has no message.
func (s *Service) dropPending(ctx context.Context, c *record.Change, current record.Session) error {
	run, err := s.Store.Run(ctx, current.ID, current.CurrentRun)
	if err != nil {
		return err
	}
	c.EndRun = &record.RunEnd{RunID: run.ID, State: record.RunCancelled, StopReason: llm.StopAborted}
	return s.show(
		c, run.ID+".discarded.",
		frames.MessageEnd{MessageID: run.MessageID, EndedAt: c.At, StopReason: llm.StopAborted},
		frames.RunEnded{RunID: run.ID, Outcome: string(record.RunCancelled)},
	)
}

// show adds frames to a change. Their ids begin with about.
func (s *Service) show(c *record.Change, about string, list ...frames.Payload) error {
	for _, p := range list {
		d, err := frames.RenderDurable(s.Renderer, about+p.Kind().Name, p)
		if err != nil {
			return err
		}
		c.Outbox = append(c.Outbox, d)
	}
	return nil
}
