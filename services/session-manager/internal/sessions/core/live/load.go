package live

import (
	"context"
	"errors"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/crash"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/services/session-manager/internal/sessions/core/frames"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/runs"
	"kaged.dev/services/session-manager/internal/sessions/core/transcript"
)

// load takes a session's lease and repairs the state that the last holder left.
func (g *Registry) load(ctx context.Context, id string, e *entry) (*Session, error) {
	taken, err := g.Store.Take(ctx, id, g.Self, g.LeaseTTL.Milliseconds())
	if err != nil {
		return nil, err
	}
	crash.At(crash.LeaseTaken)
	loaded, err := g.Store.Load(ctx, id, taken.First())
	if err != nil {
		return nil, err
	}
	s := &Session{
		ID: id, g: g, fence: taken.Fence, entry: e, gone: make(chan struct{}), change: make(turn, 1),
		kept:   keptHistory{reading: make(turn, 1)},
		record: loaded.Session, idleSince: time.Now(), ledger: keptLedger{known: taken.First()},
	}
	start := frames.Start{Stored: loaded.Stored, Outbox: loaded.Outbox}
	// A holder that released the lease itself, with no work left, publishes no more.
	start.TakeOver = taken.Before != "" || loaded.Run != nil || len(loaded.Outbox) > 0
	if loaded.Run != nil {
		start.WorkSince = max(loaded.Run.CreatedAt, 1)
	}
	for _, d := range loaded.Outbox {
		s.lastN = max(s.lastN, d.N)
	}
	// The epoch in the upper bits keeps the N of different holders' frames distinct.
	s.lastN = max(s.lastN, taken.Epoch<<32)
	s.frames = frames.New(frames.Config{
		Session: id, Epoch: taken.Epoch, Stream: g.Stream, Buffer: g.Buffer, Batch: g.Batch, Log: g.Log,
		Held:     func(ctx context.Context) error { return g.Store.Held(ctx, s.fence) },
		Progress: g.ledger.Note,
		Lost:     func(err error) { g.drop(s, err) },
	}, start)
	err = g.cutOff(ctx, s, loaded.Compactions)
	if loaded.Run != nil || err != nil {
		if err == nil && g.adoptable(loaded) {
			err = g.adopt(ctx, s, loaded)
		} else if err == nil {
			err = g.recover(ctx, s, loaded)
		}
		if err != nil {
			closing, cancel := context.WithCancel(ctx)
			cancel()
			s.frames.Close(closing)
			if g.claim(s, true) { // else drop takes it out, after the load
				close(s.gone)
				s.leaveHistory() // adopt has read it
			}
			return nil, err
		}
	} else if loaded.Resume != nil {
		g.resumeLater(s, interrupted{*loaded.Resume, loaded.Tries})
	}
	return s, nil
}

// cutOff ends compactions between runs that the last holder left unfinished. Their unsettled model calls count with
// their full reservation.
func (g *Registry) cutOff(ctx context.Context, s *Session, list []CutCompaction) error {
	for _, cut := range list {
		err := s.Update(ctx, "", func(current record.Session) (record.Change, error) {
			const lost = "kaged stopped during the compaction; its paid model call has no result."
			c := record.Change{At: time.Now().UnixMilli(), Cut: []string{cut.ID}}
			failed := contract.Compaction{
				ID: cut.ID, Phase: contract.CompactionFailed, Trigger: contract.OperatorManual,
				Strategy: contract.StrategySummarize, Reason: lost, At: c.At, Audit: contract.Record{Agent: cut.Agent},
			}
			shown, err := frames.RenderDurable(g.Runs.Renderer, cut.ID+string(failed.Phase),
				frames.Told{SessionID: s.ID, Event: failed})
			r := about(current, "compaction.failed", ident.New(), c.At, "", map[string]any{
				"compaction_id": cut.ID, "session_id": s.ID, "attempted_strategy": failed.Strategy, "fallback_strategy": "",
				"reason": lost,
			})
			r.AgentPath = cut.Agent
			c.Audit, c.Outbox = append(c.Audit, r), append(c.Outbox, shown)
			return c, err
		}, nil)
		if err != nil {
			return err
		}
	}
	return nil
}

// recover ends the active run that the last holder left, and resumes it in a new run if the project wants that.
func (g *Registry) recover(ctx context.Context, s *Session, l Loaded) error {
	resume, err := g.resumes(ctx, l)
	if err != nil {
		return err
	}
	steps, err := g.stepsOf(ctx, l.Run)
	if errors.Is(err, fault.Unavailable) {
		return err
	}
	if err == nil {
		err = g.endInterrupted(ctx, s, l, steps, record.Idle, resume)
	}
	if err != nil && !errors.Is(err, fault.Unavailable) && !errors.Is(err, fault.StaleLease) && ctx.Err() == nil {
		g.Log.Error("an interrupted run could not be repaired; the session has failed", "session", s.ID, "run", l.Run.ID,
			"error", err)
		err = g.endInterrupted(ctx, s, l, nil, record.Failed, false)
	}
	if err != nil {
		return err
	}
	g.Log.Info("an interrupted run was ended", "session", s.ID, "run", l.Run.ID, "steps", len(steps))
	if s.Record().ResumeRun == l.Run.ID {
		g.resumeLater(s, interrupted{*l.Run, l.Tries})
	}
	return nil
}

// stepsOf returns the stored steps of a run's root agent. It sets run.Cut and run.Below.
func (g *Registry) stepsOf(ctx context.Context, run *record.Run) ([]transcript.Step, error) {
	steps, err := g.Store.Steps(ctx, run.ID, "")
	if err != nil {
		return nil, err
	}
	var calls []string
	for _, call := range transcript.Open(steps) {
		calls = append(calls, call.ID)
	}
	run.Cut, run.Below, err = g.Store.Cut(ctx, run.ID, calls)
	return steps, err
}

// resumes reports whether a new run is to continue an interrupted one. It fails with unavailable.
func (g *Registry) resumes(ctx context.Context, l Loaded) (bool, error) {
	snapshot, err := g.Projects.Snapshot(ctx, l.Session.CompiledHash)
	switch {
	case errors.Is(err, fault.Unavailable), ctx.Err() != nil:
		return false, err
	case err != nil:
		g.Log.Warn("an interrupted run is not resumed: its snapshot cannot be read", "session", l.Session.ID, "error", err)
		return false, nil
	}
	return g.Runs.Resumes(snapshot, l.Tries), nil
}

// endInterrupted ends a run with its stored steps.
func (g *Registry) endInterrupted(
	ctx context.Context, s *Session, l Loaded, steps []transcript.Step, next record.State, resume bool,
) error {
	change, err := runs.Interrupted(g.Runs.Renderer, l.Session, *l.Run, steps, next, resume)
	if err != nil {
		return err
	}
	return s.Update(ctx, crash.RecoveryStored, func(record.Session) (record.Change, error) { return change, nil }, nil)
}

//convert:import projects "kaged.dev/services/session-manager/internal/projects/core/projects"
//convert:one PinOf record.Session projects.Pin ProjectPath=Root Overrides.Model=ModelOverride PromptHashes=KnownPrompts
