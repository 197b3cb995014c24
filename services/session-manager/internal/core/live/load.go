package live

import (
	"context"
	"errors"
	"time"

	"kaged.dev/pkg/crash"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/services/session-manager/internal/core/audit"
	"kaged.dev/services/session-manager/internal/core/frames"
	"kaged.dev/services/session-manager/internal/core/projects"
	"kaged.dev/services/session-manager/internal/core/record"
	"kaged.dev/services/session-manager/internal/core/runs"
	"kaged.dev/services/session-manager/internal/core/transcript"
)

// load takes a session's lease and puts in order what the holder before left behind.
func (g *Registry) load(ctx context.Context, id string, e *entry) (*Session, error) {
	taken, err := g.Store.Take(ctx, id, g.Self, g.LeaseTTL.Milliseconds())
	if err != nil {
		return nil, err
	}
	crash.At(crash.LeaseTaken)
	loaded, err := g.Store.Load(ctx, id)
	if err != nil {
		return nil, err
	}
	s := &Session{
		ID: id, g: g, fence: taken.Fence, entry: e, gone: make(chan struct{}), change: make(chan struct{}, 1),
		record: loaded.Session, idleSince: time.Now(),
	}
	start := frames.Start{Stored: loaded.Stored, Outbox: loaded.Outbox}
	// A holder that gave the lease up itself, with nothing left to do, publishes nothing any more.
	start.TakeOver = taken.Before != "" || loaded.Run != nil || len(loaded.Outbox) > 0
	if loaded.Run != nil {
		start.WorkSince = max(loaded.Run.CreatedAt, 1)
	}
	for _, d := range loaded.Outbox {
		s.lastN = max(s.lastN, d.N)
	}
	// Frames of several holders must not meet under one place in the store.
	s.lastN = max(s.lastN, taken.Epoch<<32)
	s.frames = frames.New(frames.Config{
		Session: id, Epoch: taken.Epoch, Stream: g.Stream, Buffer: g.Buffer, Batch: g.Batch, Log: g.Log,
		Held:     func(ctx context.Context) error { return g.Store.Held(ctx, s.fence) },
		Progress: g.ledger.Note,
		Lost:     func(err error) { g.drop(s, err) },
	}, start)
	if loaded.Run == nil {
		return s, nil
	}
	if err := g.recover(ctx, s, loaded); err != nil {
		closing, cancel := context.WithCancel(ctx)
		cancel()
		s.frames.Close(closing)
		return nil, err
	}
	return s, nil
}

// recover ends the run that the holder before left at work, and lets it go on in a new one where the project wants that.
func (g *Registry) recover(ctx context.Context, s *Session, l Loaded) error {
	steps, err := g.Store.Steps(ctx, l.Run.ID)
	if errors.Is(err, fault.Unavailable) {
		return err
	}
	state := record.Idle
	if err == nil {
		err = g.endInterrupted(ctx, s, l, steps, state)
	}
	if err != nil && !errors.Is(err, fault.Unavailable) && !errors.Is(err, fault.StaleLease) && ctx.Err() == nil {
		g.Log.Error("an interrupted run cannot be put in order; the session has failed", "session", s.ID, "run", l.Run.ID, "error", err)
		state = record.Failed
		err = g.endInterrupted(ctx, s, l, nil, state)
	}
	if err != nil {
		return err
	}
	g.Log.Info("an interrupted run was ended", "session", s.ID, "run", l.Run.ID, "steps", len(steps))
	snapshot, err := g.Projects.Snapshot(ctx, l.Session.CompiledHash)
	if err != nil {
		g.Log.Warn("whether an interrupted run is to go on is not known; it does not", "session", s.ID, "error", err)
		return nil
	}
	if state == record.Idle && l.Run.CancelRequestedAt == 0 {
		g.resumeLater(s, interrupted{l.Session, *l.Run, l.Tries, snapshot})
	}
	return nil
}

// endInterrupted ends a run with the steps that are kept of it.
func (g *Registry) endInterrupted(ctx context.Context, s *Session, l Loaded, steps []transcript.Step, next record.State) error {
	change, err := runs.Interrupted(g.Runs.Renderer, l.Session, *l.Run, steps, next)
	if err != nil {
		return err
	}
	return s.Update(ctx, crash.RecoveryStored, func(record.Session) (record.Change, error) { return change, nil }, nil)
}

// interrupted is a run that was cut off.
type interrupted struct {
	session record.Session
	run     record.Run
	// tries is how many runs the message has had.
	tries    int
	snapshot *projects.Snapshot
}

// resumeLater begins a run that goes on where another was cut off, if the project wants that and it has not been tried too
// often. It returns at once.
func (g *Registry) resumeLater(s *Session, was interrupted) {
	if !was.snapshot.ResumeOnCrash || was.tries > g.Resumes {
		return
	}
	if held, err := g.hold(s); !held || err != nil {
		return
	}
	g.work.Go(func() {
		defer g.release(s)
		g.resume(s, was)
	})
}

// resume begins a run that answers the same message as the interrupted one and goes on from its last completed step.
func (g *Registry) resume(s *Session, was interrupted) {
	ctx, cancel := context.WithTimeout(g.ctx, g.ResumeFor)
	defer cancel()
	var inputs projects.Inputs
	var history []record.Message
	err := g.persist(ctx, s, func() (err error) {
		if inputs, err = g.Projects.Prepare(ctx, PinOf(s.Record())); err == nil {
			history, err = s.History(ctx)
		}
		return err
	})
	if err != nil {
		g.Log.Warn("an interrupted run was not resumed", "session", s.ID, "run", was.run.ID, "error", err)
		return
	}
	run := record.Run{
		ID: ident.New(), SessionID: s.ID, Owner: was.run.Owner, ProjectID: was.run.ProjectID,
		TriggerMessageID: was.run.TriggerMessageID, MessageID: ident.New(), State: record.RunRunning,
		CompiledHash: was.snapshot.Hash, PromptHashes: inputs.PromptHashes,
		Cage: runs.CageAtStart(inputs.Snapshot),
	}
	var spec runs.Spec
	err = s.Update(ctx, "", func(current record.Session) (record.Change, error) {
		next, err := current.State.On(record.Posted)
		if err != nil {
			return record.Change{}, err
		}
		if current.MessageCount != int64(len(history)) {
			return record.Change{}, fault.New(fault.Conflict, "The session was used in between.")
		}
		at := time.Now().UnixMilli()
		run.CreatedAt, run.StartedAt = at, at
		spec = runs.Spec{
			Session: current, Run: run, RequestID: ident.New(), Inputs: inputs, Tries: was.tries + 1,
			Stored: record.History(history),
		}
		c := record.Change{At: at, NewRun: &run, Session: record.Patch{State: next}}
		c.Audit = append(c.Audit, resumed(current, run, was.run.ID, spec.RequestID))
		err = runs.Announce(g.Runs.Renderer, &c, run, current.BlockedReason)
		return c, err
	}, func() { s.Begin(s.Ready(spec)) })
	if err != nil {
		g.Log.Warn("an interrupted run was not resumed", "session", s.ID, "run", was.run.ID, "error", err)
	}
}

// persist calls f until it does not fail with unavailable, the session is gone, or ctx ends.
func (g *Registry) persist(ctx context.Context, s *Session, f func() error) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := f()
		if !errors.Is(err, fault.Unavailable) {
			return err
		}
		select {
		case <-s.gone:
			return err
		default:
		}
		if !wait(ctx, pause) {
			return err
		}
	}
}

// PinOf returns what a session holds on to of its project.
func PinOf(s record.Session) projects.Pin {
	return projects.Pin{
		Owner: s.Owner, ProjectID: s.ProjectID, Root: s.ProjectPath, Workspace: s.Workspace,
		CompiledHash: s.CompiledHash, ModelOverride: s.Overrides.Model, KnownPrompts: s.PromptHashes,
	}
}

// resumed records that a run goes on where another was cut off.
func resumed(s record.Session, run record.Run, before, requestID string) audit.Record {
	r := audit.Record{
		TS: run.CreatedAt, EventType: "run.resumed", UserID: s.Owner, RequestID: requestID, ProjectID: s.ProjectID, SessionID: s.ID,
		RunID: run.ID, Payload: map[string]any{"interrupted_run": before, "message_id": run.TriggerMessageID},
	}
	return r.Clean()
}
