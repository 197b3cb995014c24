package live

import (
	"context"
	"errors"
	"sync"
	"time"

	"kaged.dev/pkg/crash"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/core/frames"
	"kaged.dev/services/session-manager/internal/core/lease"
	"kaged.dev/services/session-manager/internal/core/record"
	"kaged.dev/services/session-manager/internal/core/runs"
)

// Session is a live session. It is safe for concurrent use.
type Session struct {
	ID     string
	g      *Registry
	fence  lease.Fence
	frames *frames.Writer
	entry  *entry
	gone   chan struct{} // closed when it is out of the registry

	// change is held while the session changes, until the frames that say so are in the writer's hands.
	change sync.Mutex
	lastN  int64 // of the durable frames; guarded by change

	mu         sync.Mutex // guards the fields below
	run        *runs.Run
	attachment *Attachment

	// Guarded by the registry's lock.
	users     int
	idleSince time.Time
	going     bool
}

// The pauses between two tries while the store is away.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = time.Second
)

// Emit implements [runs.Desk].
func (s *Session) Emit(ctx context.Context, f frames.Frame) error { return s.frames.Emit(ctx, f) }

// History implements [runs.Desk].
func (s *Session) History(ctx context.Context) ([]record.Message, error) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		messages, err := s.g.Store.History(ctx, s.ID)
		if !errors.Is(err, fault.Unavailable) {
			return messages, err
		}
		if !wait(ctx, pause) {
			return nil, ctx.Err()
		}
	}
}

// Commit implements [runs.Desk].
func (s *Session) Commit(ctx context.Context, c record.Change, between crash.Point) error {
	s.change.Lock()
	defer s.change.Unlock()
	return s.commit(ctx, c, between)
}

func (s *Session) commit(ctx context.Context, c record.Change, between crash.Point) error {
	s.number(c.Outbox)
	again := false
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := s.g.Store.Apply(ctx, s.fence, c, again)
		if err == nil {
			s.announce(c, between)
			return nil
		}
		if !errors.Is(err, fault.Unavailable) {
			s.overtaken(err)
			return err
		}
		s.g.Log.Warn("a change waits for the store", "session", s.ID, "error", err)
		again = true
		if !wait(ctx, pause) {
			return ctx.Err()
		}
	}
}

// Update changes the session as decide says, which is asked with the session locked and must have no effect of its own.
// then, unless nil, is called when the change is committed, before any other change. It fails with decide's error, and with
// unavailable if the store is away. If it cannot be found out whether the change was committed, the session is dropped:
// whoever acquires it next finds what there is.
func (s *Session) Update(ctx context.Context, between crash.Point, decide func(record.Session) (record.Change, error), then func()) error {
	s.change.Lock()
	defer s.change.Unlock()
	var change record.Change
	err := s.g.Store.Update(ctx, s.fence, func(current record.Session) (record.Change, error) {
		var err error
		if change, err = decide(current); err == nil {
			s.number(change.Outbox)
		}
		return change, err
	})
	if unknown(err) {
		err = s.settle(ctx, change, err)
	}
	if err != nil {
		s.overtaken(err)
		return err
	}
	s.announce(change, between)
	if then != nil {
		then()
	}
	return nil
}

// unknown reports whether a failure leaves open if the change was committed.
func unknown(err error) bool {
	return err != nil && fault.From(err).Details[CommitUnknown] == true
}

// CommitUnknown is the detail of a failure that leaves open whether a change was committed.
const CommitUnknown = "commit_unknown"

// settle applies a change again whose answer was lost.
func (s *Session) settle(ctx context.Context, c record.Change, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.g.Settle)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := s.g.Store.Apply(ctx, s.fence, c, true)
		if !errors.Is(err, fault.Unavailable) && ctx.Err() == nil {
			return err
		}
		if !wait(ctx, pause) {
			s.g.drop(s, cause)
			return cause
		}
	}
}

// number gives durable frames their places. s.change is held.
func (s *Session) number(list []frames.Durable) {
	for i := range list {
		list[i].N = s.lastN + int64(i) + 1
	}
}

// announce publishes the frames of a change that was committed. s.change is held.
func (s *Session) announce(c record.Change, between crash.Point) {
	s.lastN += int64(len(c.Outbox))
	crash.At(between)
	s.frames.EmitDurable(c.Outbox)
}

// overtaken drops the session if err says that it is somebody else's.
func (s *Session) overtaken(err error) {
	if errors.Is(err, fault.StaleLease) {
		s.g.drop(s, err)
	}
}

// Begin starts a run, whose row is committed. It is called by an Update's then.
func (s *Session) Begin(spec runs.Spec) {
	// The session is in use by whoever calls, so it can be held.
	s.g.mu.Lock()
	s.users++
	s.g.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.run = runs.Begin(s.g.Runs, s, spec, func(r *runs.Run) {
		s.mu.Lock()
		if s.run == r {
			s.run = nil
		}
		s.mu.Unlock()
		if r.Interrupted() {
			spec := r.Spec()
			s.g.resumeLater(s, interrupted{spec.Session, spec.Run, spec.Tries, spec.Inputs.Snapshot})
		}
		s.g.release(s)
	})
	if s.left() {
		s.run.Abandon() // dropped in between
	}
}

func (s *Session) left() bool {
	s.g.mu.Lock()
	defer s.g.mu.Unlock()
	return s.going
}

// CurrentRun returns the run at work here, nil for none.
func (s *Session) CurrentRun() *runs.Run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.run
}

// StopRun cancels the run at work here and waits until it has ended. It returns ctx's error if that ends first.
func (s *Session) StopRun(ctx context.Context, reason string) error {
	run := s.CurrentRun()
	if run == nil {
		return nil
	}
	run.Cancel(reason)
	select {
	case <-run.Done():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Flush waits until the frames of all changes so far are published; see [frames.Writer.Flush].
func (s *Session) Flush(ctx context.Context) error { return s.frames.Flush(ctx) }

// wait pauses and reports whether ctx goes on.
func wait(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
