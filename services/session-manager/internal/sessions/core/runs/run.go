package runs

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/crash"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/operators/core/localconfig"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
	"kaged.dev/services/session-manager/internal/sessions/core/frames"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/transcript"
)

// Spec is a run to carry out.
type Spec struct {
	Session record.Session
	Run     record.Run
	// RequestID correlates the records of the run.
	RequestID string
	Inputs    projects.Inputs
	// Stored is the conversation so far, oldest first, ending with the message that the run answers.
	Stored []transcript.Stored
	// Ledger is the session's so far.
	Ledger contract.Ledger
	// First says that the session has had no run before.
	First bool
	// Tries is how many runs the message has had, this one included.
	Tries int
	// Continued is set for a run that was handed over.
	Continued *Continued
}

// Metered reports whether the session or its operator has a budget.
func (s Spec) Metered() bool { return s.Session.Budget.Set() || s.Inputs.Config.Budget().Set() }

// Writer writes the session that a run works in, as long as this process holds its lease.
type Writer interface {
	// Emit publishes a frame; see [frames.Writer.Emit].
	Emit(ctx context.Context, f frames.Frame) error
	// Commit applies a change and publishes its frames, passing the point in between. It tries again while the store is
	// away. It fails with ctx's error, and otherwise only if the session is lost to this process.
	Commit(ctx context.Context, c record.Change, between crash.Point) error
	// Waiting returns the messages that wait for the next step boundary.
	Waiting() []record.Steer
	// Reserve judges a claim, and stores its reservation if the call may be made. It tries again while the store is
	// away, and fails as Commit does.
	Reserve(ctx context.Context, c record.Claim) (record.Verdict, error)
}

// Deps are the dependencies of runs. Every field is required.
type Deps struct {
	Harness  Harness
	Issues   Issues
	Standing Standing
	Renderer frames.Renderer
	Config   localconfig.Source
	Log      *slog.Logger
	// HoldBack is how long an unawaited record may wait for company before it is stored.
	HoldBack time.Duration
	// CancelGrace is how long a cancelled run may take to report its results.
	CancelGrace time.Duration
	// ApprovalTimeout is how long a tool call waits for an operator before it counts as denied.
	ApprovalTimeout time.Duration
	// Resumptions is how often one message is resumed after crashes.
	Resumptions int
}

// Resumes reports whether a run of a message that has had so many goes on in a new one where it is cut off.
func (d Deps) Resumes(of *projects.Snapshot, tries int) bool {
	return of.ResumeOnCrash && tries <= d.Resumptions
}

// Why a run's context ends early.
var (
	errCancelled   = errors.New("the run was cancelled")
	errInterrupted = errors.New("the run was interrupted")
	errAbandoned   = errors.New("the run is left to the session's next holder")
)

// Run is a run at work. It is safe for concurrent use.
type Run struct {
	Deps
	spec   Spec
	writer Writer // set by Begin

	// life is the run's on this process: it ends with Abandon, and everything else with it.
	life  context.Context
	leave context.CancelFunc
	// ctx covers the harness's stream and its preparation.
	ctx  context.Context
	stop context.CancelCauseFunc
	// patience bounds waiting for room among the frames: a run that is to end does not wait.
	patience context.Context
	hurry    context.CancelFunc
	jobs     chan job
	done     chan struct{}
	// ready is closed when the harness has the run, or cannot be given it: then unready says why.
	ready   chan struct{}
	opened  Stream
	unready error
	worked  worktime

	mu     sync.Mutex // guards the fields below
	stream Stream     // nil until the run is under way
	why    error      // why the run is to end early, nil if it is not
	// halted says that the run is to be handed over at its next safe point, handed that it is: its next holder goes on.
	halted, handed bool
	// recalled are the approvals of the open calls of a run that was handed over, by id.
	recalled map[string]*recalled
	// questions are the open requests for approval, by id; nil once the run is ending.
	questions map[string]*question
	// agents are closed when the ends of the agents at work below the root are stored, by their invocations; nil once
	// the run is ending.
	agents map[string]chan struct{}
	// asking counts the goroutines that wait for a request to expire, and the answers on their way.
	asking sync.WaitGroup
}

// Ready gives a run to the harness while its row is being stored: until [Run.Begin] no model is asked, no frame is
// shown and no budget is spent. Either Begin or [Run.Drop] must follow.
func Ready(deps Deps, spec Spec) *Run {
	r := &Run{
		Deps: deps, spec: spec, questions: map[string]*question{}, agents: map[string]chan struct{}{},
		jobs: make(chan job, 16), done: make(chan struct{}), ready: make(chan struct{}),
	}
	r.recall()
	r.life, r.leave = context.WithCancel(context.Background())
	r.ctx, r.stop = context.WithCancelCause(r.life)
	r.patience, r.hurry = context.WithCancel(r.ctx)
	go func() {
		defer close(r.ready)
		r.opened, r.unready = r.start()
	}()
	return r
}

// start gives the run to the harness. One that was handed over waits for its workspace and for a harness.
func (r *Run) start() (Stream, error) {
	s := Start{Spec: r.spec, Routes: r.spec.Inputs.Routes, Todos: r.todos(r.ctx)}
	if r.spec.Continued == nil {
		return r.Harness.Start(r.ctx, s)
	}
	return r.startAgain(s)
}

// Taken waits until the harness has the run. It fails with why it cannot be given it, and with ctx's error.
func (r *Run) Taken(ctx context.Context) error {
	select {
	case <-r.ready:
		return r.unready
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Drop takes a run without a stored row back from the harness.
func (r *Run) Drop() {
	r.leave()
	<-r.ready
}

// Begin carries out the run after its row is committed. over is called, once, when it has ended and before
// [Run.Done] is closed.
func (r *Run) Begin(writer Writer, over func(*Run)) {
	r.writer = writer
	r.awaitRecalled()
	go func() {
		defer close(r.done)
		defer over(r)
		defer r.leave()
		r.work()
	}()
}

// ID returns the run's id.
func (r *Run) ID() string { return r.spec.Run.ID }

// Done is closed when the run has ended.
func (r *Run) Done() <-chan struct{} { return r.done }

// Spec returns the run's parameters.
func (r *Run) Spec() Spec { return r.spec }

// Cancel asks the run to stop and returns at once; [Run.Done] tells when it has. A run that is ending already ends
// as it would have. A harness that does not stop within the grace is cut off.
func (r *Run) Cancel(reason string) { r.end(errCancelled, reason) }

// end is [Run.Cancel] for any reason.
func (r *Run) end(why error, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.why != nil {
		return
	}
	r.why = why
	r.hurry()
	if r.stream == nil {
		r.stop(why)
		return
	}
	cut := time.AfterFunc(r.CancelGrace, func() { r.stop(why) })
	context.AfterFunc(r.ctx, func() { cut.Stop() })
	go r.stream.Cancel(reason) // it may wait for the network; it ends with the stream
}

// Abandon ends the run here and writes no row: the session belongs to another process now, or will.
func (r *Run) Abandon() {
	r.mu.Lock()
	r.why = errAbandoned
	r.mu.Unlock()
	r.stop(errAbandoned)
	r.leave()
}

// HandOver stops the run at its next safe point, for its next holder to go on: each agent stops between two steps, or
// where it waits for an operator. One that no harness has taken since it was handed over before is left as it is.
func (r *Run) HandOver() {
	r.mu.Lock()
	r.halted = true
	stream := r.stream
	waits := stream == nil && r.spec.Continued != nil && r.why == nil
	r.mu.Unlock()
	if waits {
		r.Abandon()
	} else if stream != nil {
		go stream.Halt() // it may wait for the network; it ends with the stream
	}
}

// Halt stops the run at its next safe point, as HandOver does, if a harness has it.
func (r *Run) Halt() {
	r.mu.Lock()
	stream := r.stream
	again := r.halted
	r.halted = r.halted || stream != nil
	r.mu.Unlock()
	if stream != nil && !again {
		go stream.Halt() // it may wait for the network; it ends with the stream
	}
}

// Handed reports whether the run was handed over: its next holder goes on with it.
func (r *Run) Handed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.handed
}

func (r *Run) reason() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.why
}

// leaves reports whether the run is ending.
func (r *Run) leaves() bool { return r.reason() != nil }

// Cut ends the run at once: as interrupted, or, where the project wants a run that was cut off to go on, by leaving it
// to the session's next holder. One that is ending already ends as it would have, only without waiting for the harness:
// a cancelled run is not left to a holder that would resume it.
func (r *Run) Cut() {
	why := errInterrupted
	if r.spec.Inputs.Snapshot.ResumeOnCrash {
		why = errAbandoned
	}
	r.mu.Lock()
	if r.why == nil {
		r.why = why
	}
	why = r.why
	r.mu.Unlock()
	r.hurry()
	r.stop(why)
	if errors.Is(why, errAbandoned) {
		r.leave()
	}
}

// work is the run.
func (r *Run) work() {
	kept := make(chan struct{})
	k := keeper{Run: r, revision: r.spec.Inputs.Config.Revision()}
	go func() {
		defer close(kept)
		k.keep()
	}()
	relay := newRelay(r)
	ending := relay.run()
	r.worked.stop()
	ending.asking = r.closeQuestions()
	switch {
	case errors.Is(r.reason(), errAbandoned):
	case ending.Outcome == contract.HandedOver:
		r.jobs <- job{released: relay.released(), now: true}
	default:
		r.jobs <- job{end: &ending, now: true}
	}
	close(r.jobs)
	<-kept
	r.closeAgents()
}

// open lets the harness go on with the run.
func (r *Run) open() (Stream, error) {
	<-r.ready
	if r.unready != nil && r.spec.Continued != nil {
		return nil, cutOff(r.unready)
	}
	if r.unready != nil {
		return nil, r.unready
	}
	r.mu.Lock()
	why, halted := r.why, r.halted
	if why == nil {
		r.stream = r.opened
	}
	r.mu.Unlock()
	if why != nil {
		r.stop(why)
		return nil, why
	}
	if err := r.adopt(); err != nil {
		return nil, err
	}
	if err := r.opened.Go(); err != nil {
		return nil, cutOff(err)
	}
	if halted {
		go r.opened.Halt() // it may wait for the network; it ends with the stream
	}
	r.worked.start()
	crash.At(crash.RunDispatched)
	return r.opened, nil
}

// cutOff returns a run's error for a broken stream.
func cutOff(err error) *fault.Error {
	switch fault.CodeOf(err) {
	case fault.Unavailable, fault.Cancelled, fault.DeadlineExceeded, fault.Internal:
		return fault.Wrap(err, fault.Interrupted, "The run was cut off; its completed steps are kept.")
	}
	return fault.From(err)
}
