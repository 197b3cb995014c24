// Package idle calls hooks once a session has had no active run for some time.
package idle

import (
	"context"
	"errors"
	"sync"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
)

// Hook is called when a session is idle, once after each run's end. Hooks run in this process.
type Hook interface {
	Name() string
	// After is the time without a run, 0 for the default.
	After() time.Duration
	// OnSessionIdle handles the call. Its error, panic or timeout is audited.
	OnSessionIdle(ctx context.Context, call Call) error
}

// Call is the input of a hook.
type Call struct {
	// OperatorID is the session's owner, AgentPath the root agent's path. RequestID is unique to this call.
	OperatorID, ProjectID, SessionID, AgentPath, RequestID string
	// Transcript are the messages since the hooks' last call, without superseded ones.
	Transcript []record.Message
}

// Session is a live session.
type Session interface {
	Record() record.Session
	History(ctx context.Context) ([]record.Message, error)
	// Change applies a change.
	Change(ctx context.Context, decide func(record.Session) (record.Change, error)) error
}

// Deps are the dependencies of a [Watcher]. Every field but Hooks is required.
type Deps struct {
	Hooks []Hook
	// Default is the time of hooks without a time of their own. Timeout bounds one call.
	Default, Timeout time.Duration
	// Acquire makes a session live until release is called.
	Acquire func(ctx context.Context, id string) (s Session, release func(), err error)
	// Warn logs a failed call or a call whose outcome was not stored.
	Warn func(msg string, args ...any)
}

// Watcher calls hooks. Its timers live in this process: after a restart the next end of a run starts them again. It
// is safe for concurrent use.
type Watcher struct {
	Deps
	ctx  context.Context
	stop context.CancelFunc

	mu      sync.Mutex // guards the fields below
	waiting map[string]*wait
	calls   sync.WaitGroup // hooks being called
	closed  bool
}

// wait is an idle session with its timers.
type wait struct {
	timers []*time.Timer
	since  int64 // time of the hooks' last call before this wait, Unix milliseconds
}

// New returns a Watcher. It works until [Watcher.Close].
func New(deps Deps) *Watcher {
	w := &Watcher{Deps: deps, waiting: map[string]*wait{}}
	w.ctx, w.stop = context.WithCancel(context.Background())
	return w
}

// Close stops the timers and waits for the hooks being called.
func (w *Watcher) Close() {
	w.mu.Lock()
	w.closed = true
	for id := range w.waiting {
		w.cancel(id)
	}
	w.mu.Unlock()
	w.stop()
	w.calls.Wait()
}

// Changed takes each change of a session: the end of a run starts the timers, and a state other than idle stops
// them. It never blocks.
func (w *Watcher) Changed(_, after record.Session, c record.Change) {
	if len(w.Hooks) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case after.State != record.Idle:
		w.cancel(after.ID)
	case c.EndRun != nil && !interrupted(c.EndRun.Error) && !w.closed:
		w.cancel(after.ID)
		w.arm(after)
	}
}

// interrupted reports whether a run was cut off by a crash or a stop.
func interrupted(err *fault.Error) bool { return err != nil && err.Code == fault.Interrupted }

// cancel stops the timers of a session. The lock is held.
func (w *Watcher) cancel(session string) {
	if waiting := w.waiting[session]; waiting != nil {
		for _, t := range waiting.timers {
			t.Stop()
		}
		delete(w.waiting, session)
	}
}

// arm sets a timer for each hook. The lock is held.
func (w *Watcher) arm(s record.Session) {
	waiting := &wait{since: s.IdleFiredAt}
	w.waiting[s.ID] = waiting
	for _, h := range w.Hooks {
		after := h.After()
		if after <= 0 {
			after = w.Default
		}
		waiting.timers = append(waiting.timers, time.AfterFunc(after, func() { w.fire(s.ID, waiting, h) }))
	}
}

// fire calls a hook, unless the session has left this wait.
func (w *Watcher) fire(session string, waiting *wait, h Hook) {
	w.mu.Lock()
	if w.closed || w.waiting[session] != waiting {
		w.mu.Unlock()
		return
	}
	w.calls.Add(1)
	w.mu.Unlock()
	defer w.calls.Done()
	s, release, err := w.Acquire(w.ctx, session)
	if err != nil {
		w.Warn("a hook for an idle session was not called", "session", session, "hook", h.Name(), "error", err)
		return
	}
	defer release()
	if err := w.call(s, waiting, h); err != nil && w.ctx.Err() == nil {
		w.Warn("the call of a hook for an idle session was not stored", "session", session, "hook", h.Name(), "error", err)
	}
}

// call calls a hook, then stores the time, and an audit record if the call failed.
func (w *Watcher) call(s Session, waiting *wait, h Hook) error {
	of := s.Record()
	history, err := s.History(w.ctx)
	if err != nil {
		return err
	}
	call := Call{
		OperatorID: of.Owner, ProjectID: of.ProjectID, SessionID: of.ID, AgentPath: rootPath, RequestID: ident.New(),
	}
	for _, m := range history {
		if !m.Superseded && m.CreatedAt > waiting.since {
			call.Transcript = append(call.Transcript, m)
		}
	}
	w.mu.Lock()
	gone := w.waiting[of.ID] != waiting
	w.mu.Unlock()
	if gone {
		return nil // a run began while the history was read
	}
	failure := w.ask(h, call)
	if w.ctx.Err() != nil {
		return w.ctx.Err()
	}
	return s.Change(w.ctx, func(now record.Session) (record.Change, error) {
		at := time.Now().UnixMilli()
		c := record.Change{At: at, Session: record.Patch{IdleFiredAt: &at}}
		if failure != nil {
			kind := "plugin.hook.failed"
			if errors.Is(failure, context.DeadlineExceeded) {
				kind = "plugin.hook.timeout"
			}
			c.Audit = append(c.Audit, now.Audited(audit.Record{
				TS: at, EventType: kind, RequestID: call.RequestID, AgentPath: rootPath, Payload: map[string]any{
					"plugin": h.Name(), "hook": "on_session_idle", "reason": fault.From(failure).Msg,
				},
			}))
		}
		return c, nil
	})
}

// rootPath is the tree path of the root agent.
const rootPath = "primary"

// ask calls a hook and stops waiting for it at the timeout.
func (w *Watcher) ask(h Hook, call Call) error {
	ctx, cancel := context.WithTimeout(w.ctx, w.Timeout)
	defer cancel()
	done := make(chan error, 1)
	go func() { // ends with the hook
		var err error
		defer func() {
			if recover() != nil {
				err = fault.New(fault.Internal, "The hook panicked.")
			}
			done <- err
		}()
		err = h.OnSessionIdle(ctx, call)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
