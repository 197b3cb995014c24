package live

import (
	"context"
	"errors"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/sessions/core/frames"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/runs"
)

// interrupted is a run that a new run is to continue. The session's ResumeRun holds its id until the new run begins
// or is given up.
type interrupted struct {
	run record.Run
	// tries is the number of runs for the message so far
	tries int
}

// errUnwanted says that a run need not be resumed any more.
var errUnwanted = errors.New("the session was used, ended, or its run cancelled meanwhile")

// resumeLater continues an interrupted run in a new run, in the background. While this process stops it does
// nothing: the next holder resumes the run.
func (g *Registry) resumeLater(s *Session, was interrupted) {
	if held, err := g.hold(s); !held || err != nil {
		return
	}
	g.work.Go(func() {
		defer g.release(s)
		g.resume(s, was)
	})
}

// resume tries to begin the run while its dependencies are unavailable, for at most ResumeFor, and then gives the
// run up.
func (g *Registry) resume(s *Session, was interrupted) {
	ctx, cancel := context.WithTimeout(g.ctx, g.ResumeFor)
	defer cancel()
	err := g.persist(ctx, s, func() error { return g.tryResume(ctx, s, was) })
	if err == nil || errors.Is(err, errUnwanted) || s.left() || g.refused() != nil {
		return
	}
	g.Log.Warn("an interrupted run was not resumed", "session", s.ID, "run", was.run.ID, "error", err)
	if err := g.persist(g.ctx, s, func() error { return g.giveUp(s, was, err) }); err != nil &&
		!errors.Is(err, errUnwanted) {
		g.Log.Warn("giving up an interrupted run was not stored; the next holder retries", "session", s.ID, "error", err)
	}
}

// tryResume begins a run for the message of the interrupted one once the harness has accepted it. The new run
// continues from the last completed step.
func (g *Registry) tryResume(ctx context.Context, s *Session, was interrupted) error {
	before := s.Record()
	if before.ResumeRun != was.run.ID {
		return errUnwanted
	}
	inputs, err := g.Projects.Prepare(ctx, PinOf(before))
	if err != nil {
		return err
	}
	history, err := s.History(ctx)
	if err != nil {
		return err
	}
	ledger, err := s.Ledger(ctx)
	if err != nil {
		return err
	}
	at := time.Now().UnixMilli()
	run := record.Run{
		ID: ident.New(), SessionID: s.ID, Owner: was.run.Owner, ProjectID: was.run.ProjectID,
		TriggerMessageID: was.run.TriggerMessageID, MessageID: ident.New(), State: record.RunRunning,
		CompiledHash: inputs.Snapshot.Hash, PromptHashes: inputs.PromptHashes,
		Cage: runs.CageAtStart(inputs.Snapshot), CreatedAt: at, StartedAt: at, Issue: before.Issue,
	}
	spec := runs.Spec{
		Session: before, Run: run, RequestID: ident.New(), Inputs: inputs, Tries: was.tries + 1,
		Stored: history.Stored,
		Ledger: ledger,
	}
	ready := s.Ready(spec)
	if err = ready.Taken(ctx); err == nil {
		err = s.Start(ctx, "", func(current record.Session) (record.Change, *runs.Run, error) {
			if err := g.resumable(current, before); err != nil {
				return record.Change{}, nil, err
			}
			next, err := current.State.On(record.Posted)
			if err != nil {
				return record.Change{}, nil, err
			}
			c := record.Change{At: at, NewRun: &run, Session: record.Patch{State: next}}
			c.Audit = append(c.Audit, about(current, "run.resumed", spec.RequestID, at, run.ID, map[string]any{
				"interrupted_run": was.run.ID, "message_id": run.TriggerMessageID,
			}))
			for _, h := range inputs.HeldPrompts {
				c.Audit = append(c.Audit, about(current, "prompt.held", spec.RequestID, at, run.ID, map[string]any{
					"path": h.Path, "accepted_sha256": h.Accepted, "sha256": h.Found,
				}))
			}
			err = runs.Announce(g.Runs.Renderer, &c, run, inputs.HeldPrompts, current.BlockedReason)
			return c, ready, err
		})
	}
	if err != nil {
		ready.Drop()
	}
	return err
}

// resumable fails if the run prepared for the session as it was before may not begin: with unavailable if a retry
// may succeed.
func (g *Registry) resumable(current, before record.Session) error {
	switch {
	case current.ResumeRun != before.ResumeRun:
		return errUnwanted
	case current.Overrides != before.Overrides || current.Issue != before.Issue:
		return fault.New(fault.Unavailable, "The session was changed meanwhile.")
	}
	return g.refused()
}

// giveUp stores that a run is not resumed, so that no later holder tries.
func (g *Registry) giveUp(s *Session, was interrupted, why error) error {
	return s.Update(g.ctx, "", func(current record.Session) (record.Change, error) {
		if current.ResumeRun != was.run.ID {
			return record.Change{}, errUnwanted
		}
		f := fault.From(why)
		c := record.Change{At: time.Now().UnixMilli(), Session: record.Patch{ResumeRun: new(string)}}
		c.Audit = append(c.Audit, about(current, "run.not_resumed", ident.New(), c.At, was.run.ID, map[string]any{
			"message_id": was.run.TriggerMessageID, "error_code": f.Code.String(), "error_message": f.Msg,
		}))
		shown, err := frames.RenderDurable(g.Runs.Renderer, was.run.ID+".not_resumed",
			frames.SessionState{State: string(current.State), BlockedReason: current.BlockedReason})
		c.Outbox = append(c.Outbox, shown)
		return c, err
	}, nil)
}

// persist calls f until it succeeds or fails other than with unavailable, the session leaves this process, or ctx
// ends.
func (g *Registry) persist(ctx context.Context, s *Session, f func() error) error {
	var err error
	for range pauses.Each(ctx) {
		if err = f(); !errors.Is(err, fault.Unavailable) || s.left() {
			break
		}
	}
	return err
}

// about returns an audit record of this process about a run.
func about(s record.Session, event, requestID string, at int64, run string, payload map[string]any) audit.Record {
	return s.Audited(audit.Record{TS: at, EventType: event, RequestID: requestID, RunID: run, Payload: payload})
}
