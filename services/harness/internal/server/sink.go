package server

import (
	"context"
	"errors"
	"io"
	"sync"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/contract/harnesswire"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/services/harness/internal/core/loop"

	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

const (
	stopAborted = llm.StopAborted
	stopError   = llm.StopError
)

// runSink is the [loop.Sink] of a caller: it sends events to the caller and receives the caller's answers.
//
// Emit blocks while the caller does not read, and the loop then stops reading the provider.
type runSink struct {
	stream runStream

	send sync.Mutex // one event at a time

	mu     sync.Mutex                        // guards the fields below
	stored map[string]*progress              // by invocation id; only active invocations
	routes map[string]contract.Route         // newest routes that the loop has not taken yet
	todos  contract.OpenTodos                // the newest todos
	steers []contract.Steer                  // messages that the root agent has not taken yet
	ended  error                             // the reason why no further answer comes
	asked  map[string]chan contract.Decision // by approval id; each channel has room for its answer
	silent chan struct{}                     // closed when no further answer comes
	wanted map[string]wanted                 // by invocation id

	released chan struct{} // closed when models may be asked
}

// progress is the stored part of an invocation.
type progress struct {
	last int           // place of the last stored half
	news chan struct{} // holds one token after a change of last
}

// place returns the number of a half among the halves of its invocation.
func place(step int, part loop.Part) int { return 2*step + int(part) }

func newProgress() *progress { return &progress{news: make(chan struct{}, 1)} }

func newRunSink(stream runStream) *runSink {
	return &runSink{
		stream: stream, stored: map[string]*progress{"": newProgress()}, released: make(chan struct{}),
		asked: map[string]chan contract.Decision{}, silent: make(chan struct{}),
		wanted: map[string]wanted{},
	}
}

// Emit sends an event.
func (r *runSink) Emit(h contract.Happening) error {
	ev, err := harnesswire.Event(h)
	if err != nil {
		return err
	}
	switch h.Event.(type) {
	case contract.AgentStarted:
		r.follow(h.InvocationID)
	case contract.AgentEnded:
		defer r.forget(h.InvocationID)
	}
	r.send.Lock()
	defer r.send.Unlock()
	return r.stream.Send(ev)
}

// follow starts to record the stored halves of an invocation.
func (r *runSink) follow(invocation string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stored[invocation] = newProgress()
}

// forget ends follow.
func (r *runSink) forget(invocation string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.stored, invocation)
}

func (r *runSink) finish(f contract.Finished) error {
	return r.Emit(contract.Happening{Event: f})
}

// hold waits until models may be asked.
func (r *runSink) hold(ctx context.Context) error {
	select {
	case <-r.released:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// onHold reports whether models may not be asked yet. Only the listening goroutine may call it.
func (r *runSink) onHold() bool {
	select {
	case <-r.released:
		return false
	default:
		return true
	}
}

// Stored waits until the caller has stored a half of a step. The results of a child are not awaited: the record of
// its next request is stored after them.
func (r *runSink) Stored(ctx context.Context, half loop.Half) (loop.Stored, error) {
	r.mu.Lock()
	p := r.stored[half.InvocationID]
	if half.InvocationID != "" && half.Part == loop.ResultsPart && p != nil && r.ended == nil {
		stored := loop.Stored{Routes: r.routes}
		r.routes = nil
		r.mu.Unlock()
		return stored, nil
	}
	r.mu.Unlock()
	if p == nil {
		return loop.Stored{}, fault.New(fault.Internal, "An invocation that was not begun waits for storage.")
	}
	for {
		if done, stored, err := r.answer(p, half); done || err != nil {
			return stored, err
		}
		select {
		case <-p.news:
		case <-r.silent:
		case <-ctx.Done():
			return loop.Stored{}, ctx.Err()
		}
	}
}

func (r *runSink) answer(p *progress, half loop.Half) (bool, loop.Stored, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.last < place(half.Step, half.Part) {
		return false, loop.Stored{}, r.ended
	}
	stored := loop.Stored{Routes: r.routes, Todos: r.todos}
	r.routes = nil
	if half.InvocationID == "" && half.Part == loop.ResultsPart {
		stored.Steers, r.steers = r.steers, nil
	}
	return true, stored, nil
}

// Ask sends a request for approval and waits for the caller's decision.
func (r *runSink) Ask(ctx context.Context, invocation string, q contract.ApprovalRequested) (contract.Decision, error) {
	answer := make(chan contract.Decision, 1)
	r.mu.Lock()
	r.asked[q.ID] = answer
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.asked, q.ID)
	}()
	if err := r.Emit(contract.Happening{InvocationID: invocation, Event: q}); err != nil {
		return contract.Decision{}, err
	}
	select {
	case d := <-answer:
		return d, nil
	case <-r.silent:
		return contract.Decision{}, fault.New(fault.Cancelled, "The caller of the run answers no more.")
	case <-ctx.Done():
		return contract.Decision{}, ctx.Err()
	}
}

// wanted is a model call that waits for its grant.
type wanted struct {
	call   int
	answer chan contract.CallGranted // with room for the answer
}

// Grant sends a wanted model call and waits for the caller's answer.
func (r *runSink) Grant(ctx context.Context, invocation string, w contract.CallWanted) (contract.CallGranted, error) {
	waiting := wanted{call: w.Call, answer: make(chan contract.CallGranted, 1)}
	r.mu.Lock()
	r.wanted[invocation] = waiting
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.wanted, invocation)
	}()
	if err := r.Emit(contract.Happening{InvocationID: invocation, Event: w}); err != nil {
		return contract.CallGranted{}, err
	}
	select {
	case g := <-waiting.answer:
		return g, nil
	case <-r.silent:
		return contract.CallGranted{}, fault.New(fault.Cancelled, "The caller of the run answers no more.")
	case <-ctx.Done():
		return contract.CallGranted{}, ctx.Err()
	}
}

// granted delivers the answer to a waiting call. It ignores other answers.
func (r *runSink) granted(p *harnessv1.CallGranted) {
	invocation, g := harnesswire.FromGranted(p)
	r.mu.Lock()
	defer r.mu.Unlock()
	if w, ok := r.wanted[invocation]; ok && w.call == g.Call {
		delete(r.wanted, invocation)
		w.answer <- g
	}
}

// decide delivers the answer to a waiting question. It ignores late and repeated answers.
func (r *runSink) decide(d *harnessv1.ApprovalDecision) {
	id, decision := harnesswire.FromDecision(d)
	r.mu.Lock()
	defer r.mu.Unlock()
	if answer, ok := r.asked[id]; ok {
		delete(r.asked, id)
		answer <- decision
	}
}

// listen reads the caller's requests until the stream ends. A cancel of the caller becomes the cause of cancel. halt
// ends the run at its next step boundary.
func (r *runSink) listen(run *loop.Tree, cancel context.CancelCauseFunc, halt func()) {
	for {
		req, err := r.stream.Recv()
		if errors.Is(err, io.EOF) && r.onHold() {
			cancel(fault.New(fault.BadRequest, "The run was given no go."))
			return
		}
		if errors.Is(err, io.EOF) {
			// The caller sends nothing more but still reads: the run goes on until it needs an answer.
			r.mu.Lock()
			r.ended = fault.New(fault.Cancelled, "The caller of the run answers no more.")
			r.mu.Unlock()
			close(r.silent)
			return
		}
		if err != nil {
			cancel(fault.Wrap(err, fault.Cancelled, "The caller of the run went away."))
			return
		}
		switch {
		case req.GetGo() != nil && r.onHold():
			close(r.released)
		case req.GetStored() != nil:
			r.take(req.GetStored())
		case req.GetDecision() != nil:
			r.decide(req.GetDecision())
		case req.GetGranted() != nil:
			r.granted(req.GetGranted())
		case req.GetCancelInvocation() != nil:
			run.Cancel(req.GetCancelInvocation().GetInvocationId(), req.GetCancelInvocation().GetReason())
		case req.GetHalt() != nil:
			halt()
		case req.GetCancel() != nil:
			cancel(fault.New(fault.Cancelled, "The run was cancelled.").With("reason", req.GetCancel().GetReason()))
		default:
			cancel(fault.New(fault.BadRequest, "After a run has begun, only stored, decision, granted, cancel, "+
				"cancel_invocation, halt "+
				"and, once, the end of its hold may come."))
			return
		}
	}
}

// take records that a half is stored. It ignores halves of unknown and ended invocations.
func (r *runSink) take(s *harnessv1.StepStored) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(s.GetRoutes()) > 0 {
		r.routes = harnesswire.FromRoutes(s.GetRoutes())
	}
	if s.GetInvocationId() == "" && s.GetPart() == harnessv1.StepPart_STEP_PART_RESULTS {
		r.todos = harnesswire.FromOpenTodos(s.GetOpenTodos())
		r.steers = append(r.steers, harnesswire.FromSteers(s.GetSteers())...)
	}
	p := r.stored[s.GetInvocationId()]
	if p == nil {
		return
	}
	p.last = max(p.last, place(int(s.GetStep()), partFromProto(s.GetPart())))
	select {
	case p.news <- struct{}{}:
	default:
	}
}
