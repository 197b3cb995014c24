// Package calls runs each tool call once.
//
// A call is identified by its session, its agent's invocation and its id. A request for a running call joins it; a
// request for a finished one gets the stored outcome, for a limited time. The work is cancelled when its last waiter
// leaves.
//
// The work runs on the goroutine of its first request, because another goroutine would cost each call two switches and
// the growth of another stack.
//
// Goroutines: one per running call that has output. It ends with the call; [Calls.Stop] cancels the calls and waits for
// them.
package calls

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/tool-runner/internal/core/dispatch"
)

// Options limit the stored outcomes and the delivery of output.
type Options struct {
	// Kept, KeptBytes and KeptFor limit the stored outcomes: their number per session, their total size, and the time.
	Kept      int
	KeptBytes int
	KeptFor   time.Duration
	// OutputEvery is the interval of output deliveries, OutputBytes the maximum size that waits for a slow reader.
	OutputEvery time.Duration
	OutputBytes int
}

// Calls are the running and stored calls. It is safe for concurrent use.
type Calls struct {
	opts Options

	mu       sync.Mutex // guards the fields below
	sessions map[string]*session
	finished *list.List // of *call, the oldest first
	bytes    int        // size of the outcomes in finished
	stopped  bool
	running  sync.WaitGroup
}

type session struct {
	calls    map[name]*call
	finished *list.List // of *call, the oldest first
}

// call is one call. Its fields but output are guarded by Calls.mu; outcome and err are also readable once done is
// closed.
type call struct {
	session string
	run     string
	name    name
	input   Digest

	done    chan struct{}
	outcome dispatch.Outcome
	err     error
	ended   time.Time
	kept    *list.Element // in Calls.finished
	own     *list.Element // in session.finished
	size    int           // in bytes, of the stored outcome

	ctx     context.Context // of the work
	cancel  context.CancelFunc
	waiting int
	output  output
}

// New returns an empty set of calls.
func New(opts Options) *Calls {
	return &Calls{opts: opts, sessions: map[string]*session{}, finished: list.New()}
}

// Digest is a hash of a call's complete request and its caller.
type Digest [32]byte

// Key identifies a call. A call with the same name but another request is refused with conflict. Invocation is the
// agent's within its run, "" for a root agent. Run is not part of the name.
type Key struct {
	Session, Invocation, ID string
	Run                     string
	Input                   Digest
}

// name is a call's name in its session.
type name struct{ invocation, id string }

// Work executes a call. emit sends output to every waiter.
type Work func(ctx context.Context, emit func(stream, text string)) (dispatch.Outcome, error)

// Do returns the outcome of a call, and does its work if the call is new. It passes output to show while the call runs,
// from one goroutine at a time. When ctx ends Do returns its error, and the work is cancelled if it has no other
// waiter; the Do that does the work returns only at the work's end.
func (c *Calls) Do(
	ctx context.Context,
	key Key,
	work Work,
	show func(stream, text string) error,
) (dispatch.Outcome, error) {
	k, reader, first, err := c.join(ctx, key)
	if err != nil {
		return dispatch.Outcome{}, err
	}
	leave := sync.OnceFunc(func() { c.leave(k, reader) })
	defer leave()
	if !first {
		if err := reader.deliver(ctx, k.done, c.opts.OutputEvery, show); err != nil {
			return dispatch.Outcome{}, err
		}
		return k.outcome, k.err
	}
	defer c.running.Done()
	defer context.AfterFunc(ctx, leave)()
	var delivering sync.WaitGroup
	var failed error
	reader.begin = func() {
		delivering.Go(func() {
			if failed = reader.deliver(ctx, k.done, c.opts.OutputEvery, show); failed != nil {
				leave()
			}
		})
	}
	c.do(k, work)
	k.output.unsubscribe(reader) // output from now on starts no goroutine
	delivering.Wait()
	switch {
	case ctx.Err() != nil:
		return dispatch.Outcome{}, fault.From(ctx.Err())
	case failed != nil:
		return dispatch.Outcome{}, failed
	}
	return k.outcome, k.err
}

// do does the work of a call. A panic ends the call for every waiter.
func (c *Calls) do(k *call, work Work) {
	defer k.cancel()
	var outcome dispatch.Outcome
	var err error = fault.New(fault.Internal, "The call failed inside kaged; the log has the cause.")
	defer func() { c.finish(k, outcome, err) }()
	outcome, err = work(k.ctx, k.output.emit)
}

// join returns the call with this key, a reader of its output from now on, and whether the call is new. The caller then
// does its work, and c.running counts it.
func (c *Calls) join(ctx context.Context, key Key) (k *call, r *reader, first bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return nil, nil, false,
			fault.New(fault.Unavailable, "The tool runner is stopping.").With("subsystem", "tool-runner")
	}
	c.expire()
	s := c.sessions[key.Session]
	if s == nil {
		s = &session{calls: map[name]*call{}, finished: list.New()}
		c.sessions[key.Session] = s
	}
	named := name{key.Invocation, key.ID}
	if k := s.calls[named]; k != nil {
		if k.input != key.Input {
			return nil, nil, false,
				fault.New(fault.Conflict, "The call id %.80q was used for another call of this session.", key.ID).
					With("call_id", key.ID)
		}
		k.waiting++
		return k, k.output.subscribe(c.opts.OutputBytes), false, nil
	}
	// The work outlives its first request as long as another request waits for it.
	k = &call{session: key.Session, run: key.Run, name: named, input: key.Input, done: make(chan struct{}), waiting: 1}
	k.ctx, k.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.calls[named] = k
	c.running.Add(1)
	return k, k.output.subscribe(c.opts.OutputBytes), true, nil
}

func (c *Calls) leave(k *call, r *reader) {
	k.output.unsubscribe(r)
	c.mu.Lock()
	defer c.mu.Unlock()
	if k.waiting--; k.waiting == 0 {
		k.cancel()
	}
}

// finish publishes and stores the outcome of a call. A call that failed for an infrastructure error is forgotten, so
// that it can be repeated, unless it may have changed state. An unreachable executor has not changed any. A call that
// ended as a question to the operator is also forgotten, because it is repeated with the answer.
func (c *Calls) finish(k *call, outcome dispatch.Outcome, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k.outcome, k.err, k.ended = outcome, err, time.Now()
	close(k.done)
	s := c.sessions[k.session]
	if s == nil || s.calls[k.name] != k {
		return // the session has ended
	}
	if outcome.Approval != nil || err != nil && (!outcome.Acted || errors.Is(err, fault.Unavailable)) {
		c.drop(k)
		return
	}
	k.kept, k.own, k.size = c.finished.PushBack(k), s.finished.PushBack(k), sizeOf(&outcome)
	c.bytes += k.size
	if s.finished.Len() > c.opts.Kept {
		c.drop(s.finished.Front().Value.(*call))
	}
	c.expire()
}

// expire drops outcomes beyond their age or number.
func (c *Calls) expire() {
	for e := c.finished.Front(); e != nil; e = c.finished.Front() {
		k := e.Value.(*call)
		if c.bytes <= c.opts.KeptBytes && time.Since(k.ended) < c.opts.KeptFor {
			return
		}
		c.drop(k)
	}
}

func (c *Calls) drop(k *call) {
	if k.kept != nil {
		c.finished.Remove(k.kept)
		c.bytes -= k.size
	}
	s := c.sessions[k.session]
	if s == nil || s.calls[k.name] != k {
		return
	}
	if k.own != nil {
		s.finished.Remove(k.own)
	}
	if delete(s.calls, k.name); len(s.calls) == 0 {
		delete(c.sessions, k.session)
	}
}

// callSize is the approximate size of a call in memory, without its outcome.
const callSize = 200

// sizeOf is the approximate size of a call with this outcome. Records can be larger than the result.
func sizeOf(o *dispatch.Outcome) int {
	n := callSize + len(o.Result.Content)
	for i := range o.Records {
		n += o.Records[i].Size()
	}
	return n
}

// Cancel cancels a call; its waiters get the outcome. It fails with not_found for an unknown call,
// and has no effect on an ended one.
func (c *Calls) Cancel(session, invocation, id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.sessions[session]; s != nil {
		if k := s.calls[name{invocation, id}]; k != nil {
			k.cancel()
			return nil
		}
	}
	return fault.New(fault.NotFound, "There is no call %.80q in the session.", id).With("call_id", id)
}

// EndRun cancels the calls of a run; their waiters get the outcomes.
func (c *Calls) EndRun(session, run string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.sessions[session]; s != nil {
		for _, k := range s.calls {
			if k.run == run {
				k.cancel()
			}
		}
	}
}

// EndSession cancels the calls of a session and drops all their outcomes.
func (c *Calls) EndSession(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.sessions[id]
	if s == nil {
		return
	}
	for _, k := range s.calls {
		k.cancel()
		c.drop(k)
	}
	delete(c.sessions, id)
}

// Stop refuses new calls, cancels the running ones and returns when they have ended.
func (c *Calls) Stop() {
	c.mu.Lock()
	c.stopped = true
	for _, s := range c.sessions {
		for _, k := range s.calls {
			k.cancel()
		}
	}
	c.mu.Unlock()
	c.running.Wait()
}
