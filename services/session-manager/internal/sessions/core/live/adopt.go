package live

import (
	"context"
	"slices"
	"time"

	"kaged.dev/pkg/ident"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/runs"
	"kaged.dev/services/session-manager/internal/sessions/core/transcript"
)

// adoptable reports whether this process may continue the session's run, which was handed over. A run that was
// released longer than AdoptFor ago ends as interrupted instead: a start after hours spends no money by itself.
func (g *Registry) adoptable(l Loaded) bool {
	return l.Run != nil && l.Run.ReleasedAt > 0 && l.Run.CancelRequestedAt == 0 &&
		time.Since(time.UnixMilli(l.Run.ReleasedAt)) < g.AdoptFor
}

// adopt continues a run that was handed over, under the same id.
func (g *Registry) adopt(ctx context.Context, s *Session, l Loaded) error {
	run := *l.Run
	steps, err := g.stepsOf(ctx, &run)
	if err != nil {
		return err
	}
	c := &runs.Continued{
		Steps: steps, Below: run.Below, Until: time.UnixMilli(run.ReleasedAt).Add(g.AdoptFor),
		Prepare: func(ctx context.Context) (projects.Inputs, error) { return g.Projects.Prepare(ctx, PinOf(l.Session)) },
	}
	for _, i := range run.Cut {
		if i.State.Over() {
			c.Answers = append(c.Answers, i)
		} else {
			c.Invocations = append(c.Invocations, i)
		}
	}
	if c.Handed, err = g.Store.Handed(ctx, run, c.OpenCalls()); err != nil {
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
	inputs, err := g.Projects.Stored(ctx, l.Session.Owner, run.CompiledHash)
	if err != nil {
		return err
	}
	run.Asking, run.Cut = nil, nil
	spec := runs.Spec{
		Session: s.Record(), Run: run, RequestID: ident.New(), Inputs: inputs, Stored: conversation(history.Stored, c, run),
		Ledger: ledger, Tries: l.Tries, Continued: c,
	}
	g.Log.Info("adopting a run that was handed over", "session", s.ID, "run", run.ID, "steps", len(steps))
	s.Begin(s.Ready(spec))
	return nil
}

// conversation returns the messages of a session, and the finished steps of its active run as the last message.
func conversation(stored []transcript.Stored, c *runs.Continued, run record.Run) []transcript.Stored {
	own := c.Message(run.MessageID)
	if len(own.Spans) > 0 && !slices.ContainsFunc(stored, func(m transcript.Stored) bool { return len(m.Spans) > 0 }) {
		own.Summary, own.SupersededTurns = c.Summary, c.SupersededTurns
	}
	if len(own.Blocks) == 0 {
		return stored
	}
	return append(stored, own)
}

// adoptLater continues, in the background, a run that its harness handed over. While this process stops it does
// nothing: the next holder adopts the run.
func (g *Registry) adoptLater(s *Session, adopted func()) {
	if held, err := g.hold(s); !held || err != nil {
		adopted()
		return
	}
	g.work.Go(func() {
		defer adopted()
		defer g.release(s)
		err := g.persist(g.ctx, s, func() error {
			loaded, err := g.Store.Load(g.ctx, s.ID, false)
			if err == nil && g.adoptable(loaded) {
				err = g.adopt(g.ctx, s, loaded)
			}
			return err
		})
		if err != nil && !s.left() && g.refused() == nil {
			g.drop(s, err) // the next holder ends the run
		}
	})
}
