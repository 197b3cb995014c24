package server

import (
	"context"
	"errors"
	"io"
	"sync"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/services/harness/internal/core/loop"

	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

const (
	stopAborted = llm.StopAborted
	stopError   = llm.StopError
)

// runSink is the caller of a run: events go to it, and its answers come from it.
//
// Sending blocks while the caller does not read: the loop then stops reading the provider.
type runSink struct {
	stream runStream

	send sync.Mutex // one event at a time

	mu     sync.Mutex // guards the fields below
	stored map[half]struct{}
	routes map[string]loop.Route         // the newest, until they are taken
	ended  error                         // why no answer comes any more
	news   chan struct{}                 // holds one token when something above has changed
	asked  map[string]chan loop.Decision // by the approval's id, each with room for its answer
	silent chan struct{}                 // closed when no answer comes any more

	released chan struct{} // closed when models may be asked
}

type half struct {
	step int
	part loop.Part
}

func newRunSink(stream runStream) *runSink {
	return &runSink{
		stream: stream, stored: map[half]struct{}{}, news: make(chan struct{}, 1), released: make(chan struct{}),
		asked: map[string]chan loop.Decision{}, silent: make(chan struct{}),
	}
}

// Emit sends an event.
func (r *runSink) Emit(e loop.Event) error {
	ev, err := eventToProto(e)
	if err != nil {
		return err
	}
	r.send.Lock()
	defer r.send.Unlock()
	return r.stream.Send(ev)
}

func (r *runSink) finish(f loop.Finished) error {
	r.send.Lock()
	defer r.send.Unlock()
	return r.stream.Send(finishedToProto(f))
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

// onHold reports whether models may not be asked yet. It is for the goroutine that listens.
func (r *runSink) onHold() bool {
	select {
	case <-r.released:
		return false
	default:
		return true
	}
}

// Stored waits for the caller's word that the half of a step is on disk.
func (r *runSink) Stored(ctx context.Context, step int, part loop.Part) (map[string]loop.Route, error) {
	for {
		if done, routes, err := r.answer(half{step, part}); done || err != nil {
			return routes, err
		}
		select {
		case <-r.news:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (r *runSink) answer(h half) (bool, map[string]loop.Route, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.stored[h]; !ok {
		return false, nil, r.ended
	}
	delete(r.stored, h)
	routes := r.routes
	r.routes = nil
	return true, routes, nil
}

// Ask sends a request for approval and waits for the caller's word.
func (r *runSink) Ask(ctx context.Context, q loop.ApprovalRequested) (loop.Decision, error) {
	answer := make(chan loop.Decision, 1)
	r.mu.Lock()
	r.asked[q.ID] = answer
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.asked, q.ID)
	}()
	if err := r.Emit(q); err != nil {
		return loop.Decision{}, err
	}
	select {
	case d := <-answer:
		return d, nil
	case <-r.silent:
		return loop.Decision{}, fault.New(fault.Cancelled, "The caller of the run answers no more.")
	case <-ctx.Done():
		return loop.Decision{}, ctx.Err()
	}
}

// decide hands on an answer. One that nobody waits for any more, or a second one, is nobody's.
func (r *runSink) decide(d *harnessv1.ApprovalDecision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if answer, ok := r.asked[d.GetApprovalId()]; ok {
		delete(r.asked, d.GetApprovalId())
		answer <- loop.Decision{Verdict: verdictsFromProto[d.GetVerdict()], Comment: d.GetComment()}
	}
}

// listen reads the caller's requests until the stream ends. The word of the caller that ends the run is cancel's cause.
func (r *runSink) listen(cancel context.CancelCauseFunc) {
	for {
		req, err := r.stream.Recv()
		if errors.Is(err, io.EOF) && r.onHold() {
			cancel(fault.New(fault.BadRequest, "The run was given no go."))
			return
		}
		if errors.Is(err, io.EOF) {
			// The caller has said its last word but reads on: the run may go on as far as it needs no answer.
			r.tell(func() { r.ended = fault.New(fault.Cancelled, "The caller of the run answers no more.") })
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
			r.tell(func() { r.take(req.GetStored()) })
		case req.GetDecision() != nil:
			r.decide(req.GetDecision())
		case req.GetCancel() != nil:
			cancel(fault.New(fault.Cancelled, "The run was cancelled.").With("reason", req.GetCancel().GetReason()))
		default:
			cancel(fault.New(fault.BadRequest, "After a run has begun, only stored, decision, cancel and, once, the end of its hold may come."))
			return
		}
	}
}

// maxUnasked bounds answers to questions that were not asked.
const maxUnasked = 1024

func (r *runSink) take(s *harnessv1.StepStored) {
	if len(r.stored) < maxUnasked {
		r.stored[half{int(s.GetStep()), partFromProto(s.GetPart())}] = struct{}{}
	}
	if len(s.GetRoutes()) > 0 {
		r.routes = routesFromProto(s.GetRoutes())
	}
}

// tell changes what waiters look at and wakes the one there may be.
func (r *runSink) tell(change func()) {
	r.mu.Lock()
	change()
	r.mu.Unlock()
	select {
	case r.news <- struct{}{}:
	default:
	}
}
