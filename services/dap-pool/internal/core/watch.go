package core

import (
	"context"
	"slices"
	"sync"
	"time"

	godap "github.com/google/go-dap"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/contract"
)

// The limits of events. outputEvery is the interval at which output of a running program is sent.
const (
	toldFrames  = 20
	toldLocals  = 40
	toldValue   = 256
	toldOutput  = 8 << 10
	outputEvery = 100 * time.Millisecond
	// describeWithin is the time limit for reading the state of a stop. After it, the stop is sent without its calls.
	describeWithin = 2 * time.Second
)

// Event is a change of a session, with the root of its project. Paths in the project are relative to it.
type Event struct {
	contract.DebugEvent
	Root string
}

// watcher receives the events of the sessions of a run.
type watcher struct {
	session, run string
	wanted       chan struct{} // holds a token after a change
}

// watchers are the watchers of a pool. It is safe for concurrent use.
type watchers struct {
	mu   sync.Mutex // guards list; locked last of all locks
	list map[*watcher]bool
}

// add adds a watcher until remove is called. remove reports whether its run has no other watcher.
func (w *watchers) add(one *watcher) (remove func() (last bool)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.list == nil {
		w.list = map[*watcher]bool{}
	}
	w.list[one] = true
	return func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.list, one)
		for other := range w.list {
			if other.session == one.session && other.run == one.run {
				return false
			}
		}
		return true
	}
}

// wake makes the watchers of a session check the session.
func (w *watchers) wake(s *session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for one := range w.list {
		if one.session == s.start.Owner.SessionID && one.run == s.start.Owner.RunID {
			select {
			case one.wanted <- struct{}{}:
			default:
			}
		}
	}
}

// news is the state of a session that a watcher has received.
type news struct {
	began, ended bool
	epoch        int
	output       int64 // the offset up to which output was sent
}

// Watch sends the events of a run's sessions to tell until ctx ends. It compares the present state with the last one
// sent, so that a slow tell costs no memory: it skips stops that the program has left, and cuts output. It returns the
// errors of tell. The sessions end with the last watcher of their run, which holds the run: after a kill -9 of the
// watcher's process the end of the run may not be reported.
func (p *Pool) Watch(ctx context.Context, owner, run string, tell func(Event) error) error {
	one := &watcher{session: owner, run: run, wanted: make(chan struct{}, 1)}
	remove := p.watchers.add(one)
	defer func() {
		if remove() {
			p.endAll(func(s *session) bool { return s.start.Owner.SessionID == owner && s.start.Owner.RunID == run }, endedByRun)
		}
	}()
	told := map[*session]*news{}
	later := time.NewTimer(0)
	defer later.Stop()
	var quiet time.Time // no output is sent before this time
	for {
		list := p.pick(func(k key) bool { return k.session == owner && k.run == run })
		for _, s := range list {
			if told[s] == nil {
				told[s] = &news{}
			}
		}
		wrote, held := false, false
		for s, n := range told {
			before := n.output
			behind, err := s.tell(ctx, n, time.Now().Before(quiet), func(e contract.DebugEvent) error {
				return tell(Event{s.about(e), s.start.Root})
			})
			if err != nil {
				return err
			}
			wrote, held = wrote || n.output > before, held || behind
			if n.ended && !slices.Contains(list, s) {
				delete(told, s)
			}
		}
		if wrote {
			quiet = time.Now().Add(outputEvery)
		}
		if wrote || held {
			later.Reset(time.Until(quiet))
		}
		select {
		case <-one.wanted:
		case <-later.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// about sets the session's fields of an event.
func (s *session) about(e contract.DebugEvent) contract.DebugEvent {
	e.ID, e.Invocation, e.Agent, e.At = s.start.ID, s.start.Invocation, s.start.Owner.Agent, time.Now().UnixMilli()
	return e
}

// tell sends the changes of the session to a watcher. If quiet is true it holds back output of a running program, and
// reports whether there is any.
func (s *session) tell(
	ctx context.Context, n *news, quiet bool, tell func(contract.DebugEvent) error,
) (held bool, err error) {
	s.mu.Lock()
	status, stop, epoch, moved, began, acting := s.status, s.stop, s.epoch, s.moved, s.configured, s.acting > 0
	s.mu.Unlock()
	if n.ended || !began {
		return false, nil
	}
	if !n.began || status == Running && n.epoch != epoch {
		n.began = true
		running := contract.DebugRunning{Runtime: s.start.Runtime, Program: s.program(), Moved: moved}
		if err := tell(contract.DebugEvent{Running: &running}); err != nil {
			return false, err
		}
	}
	if status == Running {
		n.epoch = epoch
	}
	var last contract.DebugEvent
	switch {
	case status == Exited || status == ended:
		select {
		case <-s.finished: // the last of the output precedes it
		default:
			return false, nil
		}
		s.mu.Lock()
		last.End = &contract.DebugEnd{Reason: s.reason, ExitCode: s.exitCode}
		s.mu.Unlock()
		n.ended = true
	case status == Stopped && n.epoch != epoch && !acting: // the agent's requests go first
		if last.Stop = s.describe(ctx, stop, epoch, moved); last.Stop != nil {
			n.epoch = epoch
		}
	}
	o := s.output.since(n.output, toldOutput)
	switch {
	case o.Next == n.output:
	case quiet && last == contract.DebugEvent{}:
		held = true
	default:
		n.output = o.Next
		if err := tell(contract.DebugEvent{Output: &o}); err != nil {
			return false, err
		}
	}
	if last == (contract.DebugEvent{}) {
		return held, nil
	}
	return held, tell(last)
}

// describe returns the event of a stop, nil if the program has left it.
func (s *session) describe(
	ctx context.Context, stop godap.StoppedEventBody, epoch int, moved *contract.DebugMove,
) *contract.DebugStop {
	d := contract.DebugStop{
		Reason: stop.Reason, Text: s.cut(firstText(stop.Text, stop.Description)), Thread: stop.ThreadId, Moved: moved,
	}
	ctx, cancel := context.WithTimeout(ctx, describeWithin)
	defer cancel()
	frames, _, err := s.frames(ctx, stop.ThreadId, 0, toldFrames)
	if err == nil && len(frames) > 0 {
		d.BreakpointID, d.Frames = s.hit(stop, &frames[0], epoch), s.inProject(frames)
		if a, err := s.variables(ctx, Do{Scope: "local", Count: toldLocals}); err == nil {
			d.Locals = a.Variables
		}
	}
	for i := range d.Locals {
		d.Locals[i].Value = clip.Marked(d.Locals[i].Value, toldValue, "…")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch != epoch {
		return nil
	}
	return &d
}
