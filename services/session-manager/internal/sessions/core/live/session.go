package live

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"kaged.dev/pkg/crash"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/retry"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
	"kaged.dev/services/session-manager/internal/sessions/core/frames"
	"kaged.dev/services/session-manager/internal/sessions/core/lease"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/runs"
	"kaged.dev/services/session-manager/internal/sessions/core/transcript"
)

// Session is a live session. It is safe for concurrent use.
type Session struct {
	ID     string
	g      *Registry
	fence  lease.Fence
	frames *frames.Writer
	entry  *entry
	gone   chan struct{} // closed when the session has left the registry

	// change is held during a change of the session, until the writer has its frames.
	change turn
	lastN  int64 // N of the last durable frame; guarded by change

	mu sync.Mutex // guards the fields below
	// record equals the stored session: only this process writes it. It changes only under change.
	record     record.Session
	run        *runs.Run
	attachment *Attachment
	// adopting is closed when the adoption of a run that its harness handed over has ended; nil before the first.
	adopting chan struct{}

	// Guarded by the registry's lock.
	users     int
	idleSince time.Time
	going     bool

	shaped atomic.Int64
	kept   keptHistory
	ledger keptLedger
	// estimates are those of the contexts of the session's agents.
	estimates keptEstimates
	inputs    atomic.Pointer[projects.Inputs]
	talk      transcript.Talk
	// compacting is true during a manual compaction.
	compacting atomic.Bool
}

// Compacting begins a manual compaction; ok is false during another one. done ends it.
func (s *Session) Compacting() (done func(), ok bool) {
	if !s.compacting.CompareAndSwap(false, true) {
		return nil, false
	}
	return func() { s.compacting.Store(false) }, true
}

// pauses are the pauses between retries while the store is unreachable.
var pauses = retry.Pauses{First: 20 * time.Millisecond, Last: time.Second}

// Emit implements [runs.Writer].
func (s *Session) Emit(ctx context.Context, f frames.Frame) error { return s.frames.Emit(ctx, f) }

// Settled returns the session after the change in progress, if there is one. It includes every change that readers
// of the store can see by now.
func (s *Session) Settled(ctx context.Context) (record.Session, error) {
	if err := s.lock(ctx); err != nil {
		return record.Session{}, err
	}
	defer s.unlock()
	return s.Record(), nil
}

// Inputs returns the inputs of the session's last message here, nil before the first.
func (s *Session) Inputs() *projects.Inputs { return s.inputs.Load() }

// SetInputs sets the result of [Session.Inputs].
func (s *Session) SetInputs(in projects.Inputs) {
	in.ChangedPrompts = nil // they are those that the message before did not have
	s.inputs.Store(&in)
}

// Record returns the session in its present state.
func (s *Session) Record() record.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.record
}

// Shaped counts the changes of superseded parts. A history read at another count is stale.
func (s *Session) Shaped() int64 { return s.shaped.Load() }

// turn is a mutex whose waiters stop waiting when their contexts end. It must have a capacity of 1.
type turn chan struct{}

// take waits for the turn. It fails only with ctx's error.
func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// try takes the turn if it is free.
func (t turn) try() bool {
	select {
	case t <- struct{}{}:
		return true
	default:
		return false
	}
}

func (t turn) end() { <-t }

// lock admits one change at a time. It fails only with ctx's error.
func (s *Session) lock(ctx context.Context) error { return s.change.take(ctx) }

func (s *Session) unlock() { s.change.end() }

// Commit implements [runs.Writer].
func (s *Session) Commit(ctx context.Context, c record.Change, between crash.Point) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	c = c.Given(s.Record())
	if err := runs.Deliver(s.g.Runs.Renderer, &c, s.Record()); err != nil {
		return err
	}
	s.number(c.Outbox)
	for try := range pauses.Each(ctx) {
		err := s.g.Store.Apply(ctx, s.fence, c, try > 0)
		if err == nil {
			s.applied(c, between)
			return nil
		}
		if !errors.Is(err, fault.Unavailable) {
			if ctx.Err() == nil {
				// The lease is lost, or the store refuses the change: drop the session; the next holder repairs it.
				s.g.drop(s, err)
			}
			return err
		}
		s.g.Log.Warn("a change waits for the store", "session", s.ID, "error", err)
	}
	return ctx.Err()
}

// Waiting implements [runs.Writer].
func (s *Session) Waiting() []record.Steer { return s.Record().Steers }

// Reserve implements [runs.Writer].
func (s *Session) Reserve(ctx context.Context, c record.Claim) (record.Verdict, error) {
	for range pauses.Each(ctx) {
		v, err := s.g.Store.Reserve(ctx, s.fence, c)
		if !errors.Is(err, fault.Unavailable) {
			if err != nil && ctx.Err() == nil {
				s.g.drop(s, err)
			}
			return v, err
		}
		s.g.Log.Warn("a model call waits for the store", "session", s.ID, "error", err)
	}
	return record.Verdict{}, ctx.Err()
}

// Update applies the change that decide returns for the session's present state; no other change comes between. If
// then is not nil it is called after the commit, before any other change. Update fails with decide's error, and
// with unavailable if the store is unreachable or the session leaves this process. If the outcome of the commit
// stays unknown, or the store refuses a change that is valid here, the session is dropped: the next holder reads it
// from the store.
func (s *Session) Update(
	ctx context.Context, between crash.Point, decide func(record.Session) (record.Change, error), then func(),
) error {
	return s.update(ctx, between, func(current record.Session) (record.Change, *runs.Run, error) {
		c, err := decide(current)
		return c, nil, err
	}, then)
}

// Start is [Session.Update] for a change that stores a run: it begins the run that decide returns, which was made by
// [Session.Ready]. A request that was foreseen leaves before the frames of the change are published.
func (s *Session) Start(
	ctx context.Context, between crash.Point, decide func(record.Session) (record.Change, *runs.Run, error),
) error {
	return s.update(ctx, between, decide, nil)
}

func (s *Session) update(
	ctx context.Context, between crash.Point, decide func(record.Session) (record.Change, *runs.Run, error), then func(),
) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	if s.left() {
		return fault.New(fault.Unavailable, "The session is moving to another process; try again shortly.").
			With("subsystem", "session-manager")
	}
	c, run, err := decide(s.Record())
	if err == nil && (c.NewRun != nil || c.StartRun != nil) {
		// No run begins after [Registry.Drain] has looked for runs, nor in a draining workspace.
		err = cmp.Or(s.g.refused(), s.g.CheckWorkspace(s.Record().Workspace))
	}
	if err == nil {
		err = runs.Deliver(s.g.Runs.Renderer, &c, s.Record())
	}
	if err != nil {
		return err
	}
	s.number(c.Outbox)
	err = s.g.Store.Apply(ctx, s.fence, c, false)
	if unknown(err) {
		err = s.settle(ctx, c, err)
	}
	if err != nil {
		if !harmless(err) {
			s.g.drop(s, err)
		}
		return err
	}
	before, after := s.advance(c, between)
	if run != nil {
		run.Dispatch()
	}
	s.show(before, after, c)
	if run != nil {
		s.Begin(run)
	}
	if then != nil {
		then()
	}
	return nil
}

// unknown reports whether the change may have been committed despite the failure.
func unknown(err error) bool {
	return err != nil && fault.From(err).Details[fault.CommitUnknown] == true
}

// harmless reports whether a failed change was not stored and the session here still equals the stored one.
func harmless(err error) bool {
	switch fault.CodeOf(err) {
	case fault.Unavailable:
		return !unknown(err)
	case fault.Cancelled, fault.DeadlineExceeded:
		return true
	}
	return record.IsNoSlot(err)
}

// settle applies a change again whose outcome is unknown. It returns cause if the outcome stays unknown.
func (s *Session) settle(ctx context.Context, c record.Change, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.g.Settle)
	defer cancel()
	for range pauses.Each(ctx) {
		err := s.g.Store.Apply(ctx, s.fence, c, true)
		if !errors.Is(err, fault.Unavailable) && ctx.Err() == nil {
			return err
		}
	}
	return cause
}

// number sets the N of durable frames. The caller holds change, here and below.
func (s *Session) number(list []frames.Durable) {
	for i := range list {
		list[i].N = s.lastN + int64(i) + 1
	}
}

// applied updates the session after a committed change and publishes the change's frames.
func (s *Session) applied(c record.Change, between crash.Point) {
	before, after := s.advance(c, between)
	s.show(before, after, c)
}

// advance is the first part of applied, show the second.
func (s *Session) advance(c record.Change, between crash.Point) (before, after record.Session) {
	s.lastN += int64(len(c.Outbox))
	s.mu.Lock()
	before = s.record
	s.record = c.On(before)
	after = s.record
	s.mu.Unlock()
	if len(c.Compactions) > 0 || c.Undone != "" || c.Kept != nil || len(c.Superseded) > 0 {
		s.shaped.Add(1)
	}
	if len(c.Ledger) > 0 {
		s.ledger.added()
	}
	crash.At(between)
	return before, after
}

func (s *Session) show(before, after record.Session, c record.Change) {
	s.g.Told(before, after, c)
	s.frames.EmitDurable(c.Outbox)
	if c.EndRun != nil {
		s.g.warmLater(s, c.Messages)
	}
}

// Ready hands a run to the harness while its row is being stored; see [runs.Ready].
func (s *Session) Ready(spec runs.Spec) *runs.Run {
	if spec.Continued == nil {
		spec.Talk = &s.talk
	}
	return runs.Ready(s.g.Runs, spec)
}

// Begin starts a run after its row is committed.
func (s *Session) Begin(run *runs.Run) {
	// The caller already holds the session, so it is not being taken out.
	s.g.mu.Lock()
	s.users++
	s.g.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.run = run
	run.Begin(s, func(r *runs.Run) {
		handed := r.Handed()
		adopting := make(chan struct{})
		s.mu.Lock()
		if s.run == r {
			s.run = nil
		}
		if handed {
			s.adopting = adopting
		}
		s.mu.Unlock()
		if handed {
			s.g.adoptLater(s, func() { close(adopting) })
		}
		if s.Record().ResumeRun == r.ID() {
			s.g.resumeLater(s, interrupted{r.Spec().Run, r.Spec().Tries})
		}
		s.g.release(s)
	})
	if s.left() {
		run.Abandon() // dropped in between
	} else if s.g.refused() != nil {
		run.HandOver() // it was handed over while this process began to stop
	}
}

func (s *Session) left() bool {
	s.g.mu.Lock()
	defer s.g.mu.Unlock()
	return s.going
}

// CurrentRun returns the run that is active here; it may be nil.
func (s *Session) CurrentRun() *runs.Run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.run
}

// handOver stops the run for the session's next holder. A run that is being stored is waited for.
func (s *Session) handOver(ctx context.Context) {
	if run := s.CurrentRun(); run != nil {
		run.HandOver()
	}
	if s.lock(ctx) != nil {
		return
	}
	run := s.CurrentRun()
	s.unlock()
	if run != nil {
		run.HandOver()
	}
}

// RunAtWork returns the run that is active here, after waiting for an adoption in progress; it may be nil.
func (s *Session) RunAtWork(ctx context.Context) *runs.Run {
	s.mu.Lock()
	adopting := s.adopting
	s.mu.Unlock()
	if adopting != nil {
		select {
		case <-adopting:
		case <-ctx.Done():
		}
	}
	return s.CurrentRun()
}

// Flush waits until the frames of all changes so far are published; see [frames.Writer.Flush].
func (s *Session) Flush(ctx context.Context) error { return s.frames.Flush(ctx) }
