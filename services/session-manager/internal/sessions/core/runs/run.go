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

// Spec is the input of a run.
type Spec struct {
	Session record.Session
	Run     record.Run
	// RequestID correlates the audit records of the run.
	RequestID string
	Inputs    projects.Inputs
	// Stored is the conversation so far, oldest first. The message that the run answers is the last one, or in Posted if
	// it is being stored.
	Stored, Posted []transcript.Stored
	// Talk keeps the conversation between the runs of a live session; nil for a run that was handed over.
	Talk *transcript.Talk
	// Ledger is the session's ledger so far.
	Ledger contract.Ledger
	// First says that this is the session's first run.
	First bool
	// Tries is the number of runs for the message, including this one.
	Tries int
	// Continued is set for a run that was handed over.
	Continued *Continued
}

// Metered reports whether the session or its operator has a budget.
func (s Spec) Metered() bool { return s.Session.Budget.Set() || s.Inputs.Config.Budget().Set() }

// Writer writes the session of a run while this process holds its lease.
type Writer interface {
	// Emit publishes a frame; see [frames.Writer.Emit].
	Emit(ctx context.Context, f frames.Frame) error
	// Commit applies a change and publishes its frames, with the crash point in between. It retries while the store is
	// unreachable. It fails with ctx's error, and otherwise only if the session is lost to this process.
	Commit(ctx context.Context, c record.Change, between crash.Point) error
	// Waiting returns the messages that wait for the next step boundary.
	Waiting() []record.Steer
	// Reserve checks a claim against the budgets, and stores its reservation if they allow it. It retries and fails as
	// Commit does.
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
	// HoldBack bounds the time that an unawaited record waits for others to share its commit.
	HoldBack time.Duration
	// CancelGrace bounds the time that a cancelled run has to report its results.
	CancelGrace time.Duration
	// ApprovalTimeout is the time after which an unanswered approval expires.
	ApprovalTimeout time.Duration
	// Resumptions bounds the resumptions of one message after crashes.
	Resumptions int
	// StartFor is how long other harnesses are asked to take a run that a stopping one has refused.
	StartFor time.Duration
}

// Resumes reports whether an interrupted run is resumed: the project wants that, and its message has had at most
// Resumptions runs, including this one.
func (d Deps) Resumes(of *projects.Snapshot, tries int) bool {
	return of.ResumeOnCrash && tries <= d.Resumptions
}

// The reasons for an early end of a run's context.
var (
	errCancelled   = errors.New("the run was cancelled")
	errInterrupted = errors.New("the run was interrupted")
	errAbandoned   = errors.New("the run is left to the session's next holder")
)

// Run is an active run. It is safe for concurrent use.
type Run struct {
	Deps
	spec   Spec
	writer Writer // set by Begin

	// life ends with Abandon or when the run is over; the contexts below end with it.
	life  context.Context
	leave context.CancelFunc
	// ctx is the context of the harness's stream and its preparation.
	ctx  context.Context
	stop context.CancelCauseFunc
	// patience bounds the wait for room in the writer's buffer: a run that must end does not wait.
	patience context.Context
	hurry    context.CancelFunc
	jobs     chan job
	done     chan struct{}
	// ready is closed when the harness has accepted or refused the run; unready is the refusal.
	ready   chan struct{}
	opened  Stream
	unready error
	worked  worktime
	// ahead are the events that are read before the run begins; closed when the stream belongs to the relay. unread are
	// those that Foresee has taken and not stored. foreseen is the model call that is stored with the run's row, nil
	// without one; dispatched is set by Dispatch.
	ahead      chan *came // pointers, because the channel stays as long as the run
	unread     []*came
	foreseen   *record.Spend
	dispatched *dispatched

	mu      sync.Mutex // guards the fields below
	stream  Stream     // nil until the run has begun, and while another harness is asked after a refusal
	adopted bool       // the adoption of a handed-over run is stored
	why     error      // the reason to end the run early, or nil
	// halted says that the run is to be handed over at its next safe point, handed that it has been handed over.
	halted, handed bool
	// recalled are the approvals from before the handover of the run's open calls, by id.
	recalled map[string]*recalled
	// questions are the open approvals, by id; nil once the run is ending.
	questions map[string]*question
	// agents have a channel for each active agent below the root, by invocation id, which is closed when the agent's
	// end is stored; nil once the run is ending.
	agents map[string]chan struct{}
	// asking counts the goroutines that await an expiry, and the answers being stored.
	asking sync.WaitGroup
}

// Ready gives a run to the harness while its row is being stored: until [Run.Begin] the run makes no model request,
// shows no frame and spends no budget. Either Begin or [Run.Drop] must follow.
func Ready(deps Deps, spec Spec) *Run {
	r := &Run{
		Deps: deps, spec: spec, questions: map[string]*question{}, agents: map[string]chan struct{}{},
		jobs: make(chan job, 16), done: make(chan struct{}), ready: make(chan struct{}), ahead: make(chan *came, maxAhead),
	}
	r.recall()
	r.life, r.leave = context.WithCancel(context.Background())
	r.ctx, r.stop = context.WithCancelCause(r.life)
	r.patience, r.hurry = context.WithCancel(r.ctx)
	go func() {
		defer close(r.ahead)
		r.opened, r.unready = r.start()
		close(r.ready)
		if r.unready == nil {
			r.readAhead()
		}
	}()
	return r
}

// start gives the run to the harness. A run that was handed over waits for its workspace and for a harness.
func (r *Run) start() (Stream, error) {
	s := Start{Spec: r.spec, Routes: r.spec.Inputs.Routes, Todos: r.todos(r.ctx)}
	if r.spec.Continued == nil {
		return r.give(s)
	}
	return r.startAgain(s)
}

// give gives the run to a harness. One that stops refuses it before anything of it is begun; then others are asked, for
// at most StartFor.
func (r *Run) give(s Start) (stream Stream, err error) {
	ctx, cancel := context.WithTimeout(r.ctx, r.StartFor)
	defer cancel()
	for range pauses.Each(ctx) {
		if stream, err = r.Harness.Start(r.ctx, s); !contract.IsHarnessStopping(err) {
			break
		}
	}
	return stream, err
}

// Taken waits until the harness has accepted the run. It fails with the refusal, and with ctx's error.
func (r *Run) Taken(ctx context.Context) error {
	select {
	case <-r.ready:
		return r.unready
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Drop withdraws a run without a stored row from the harness.
func (r *Run) Drop() {
	r.leave()
	r.drain()
}

// drain waits for the goroutine of Ready, after the end of the run's life.
func (r *Run) drain() {
	for range r.ahead {
	}
}

// Begin starts the run, after its row is committed. over is called once the run has ended, before [Run.Done] is
// closed.
func (r *Run) Begin(writer Writer, over func(*Run)) {
	r.writer = writer
	r.awaitRecalled()
	go func() {
		defer close(r.done)
		defer over(r)
		defer r.drain()
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

// Cancel asks the run to stop and returns at once; see [Run.Done]. It does not affect a run that is already ending.
// If the harness does not stop within CancelGrace, its stream is closed.
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
	go r.stream.Cancel(reason) // Sending may block on the network; it ends with the stream.
}

// Abandon ends the run here without writing a row: the session moves to another process.
func (r *Run) Abandon() {
	r.mu.Lock()
	r.why = errAbandoned
	r.mu.Unlock()
	r.stop(errAbandoned)
	r.leave()
}

// HandOver stops the run at its next safe point, so that its next holder can continue it: each agent stops between
// two steps, or while it waits for an operator. A run that waits for a harness after an earlier handover is
// abandoned, so that its rows stay as they are.
func (r *Run) HandOver() {
	r.mu.Lock()
	again := r.halted
	r.halted = true
	stream := r.stream
	waits := r.untaken() && r.why == nil
	r.mu.Unlock()
	if waits {
		r.Abandon()
	} else if stream != nil && !again {
		go stream.Halt() // Sending may block on the network; it ends with the stream.
	}
}

// untaken reports whether the run waits for a harness after a handover, so that its rows say "handed over". The caller
// holds r.mu.
func (r *Run) untaken() bool { return r.spec.Continued != nil && r.stream == nil && !r.adopted }

// Halt is HandOver for a run that a harness has accepted; it leaves any other run alone.
func (r *Run) Halt() {
	r.mu.Lock()
	stream := r.stream
	again := r.halted
	r.halted = r.halted || stream != nil
	r.mu.Unlock()
	if stream != nil && !again {
		go stream.Halt() // Sending may block on the network; it ends with the stream.
	}
}

// Handed reports whether the run was handed over to its next holder.
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

// leaves reports whether the run is ending early.
func (r *Run) leaves() bool { return r.reason() != nil }

// Cut ends the run at once. The run ends as interrupted, or, if the project wants interrupted runs resumed, is
// abandoned to the session's next holder. A run that is already ending keeps its outcome but no longer waits for
// the harness: a cancelled run is not abandoned, because the next holder would resume it. A run
// that waits for a harness after a handover is abandoned too, so that its rows stay as they are.
func (r *Run) Cut() {
	why := errInterrupted
	r.mu.Lock()
	if r.spec.Inputs.Snapshot.ResumeOnCrash || r.untaken() {
		why = errAbandoned
	}
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

// work carries out the run until its end is stored.
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
		r.jobs <- job{end: &ending, settled: r.unsent(), now: true}
	}
	close(r.jobs)
	<-kept
	r.closeAgents()
}

// open lets the harness begin and returns its stream.
func (r *Run) open() (Stream, error) {
	if d := r.dispatched; d != nil {
		return d.stream, d.err
	}
	<-r.ready
	if r.unready != nil && r.spec.Continued != nil {
		return nil, cutOff(r.unready)
	}
	if r.unready != nil {
		return nil, r.unready
	}
	return r.begin(r.opened, r.adopt)
}

// openAgain gives a run to another harness after one that stops has refused it. It returns no stream and no error for a
// run that is to be handed over: as nothing of it was begun, it stands at a safe point.
func (r *Run) openAgain() (Stream, error) {
	r.mu.Lock()
	r.stream = nil
	halted := r.halted
	r.mu.Unlock()
	if halted {
		return nil, nil
	}
	stream, err := r.start()
	if contract.IsHarnessStopping(err) {
		err = fault.Wrap(err, fault.Interrupted, "No harness took the run; every one that was asked is stopping.")
	}
	if err != nil {
		return nil, cutOff(err)
	}
	return r.begin(stream, r.adopt)
}

// begin lets a harness go on with the run after before, which fails if it may not.
func (r *Run) begin(taken Stream, before func() error) (Stream, error) {
	r.mu.Lock()
	why, halted := r.why, r.halted
	if why == nil {
		r.stream = taken
	}
	r.mu.Unlock()
	if why != nil {
		r.stop(why)
		return nil, why
	}
	if err := before(); err != nil {
		return nil, err
	}
	if err := taken.Go(); err != nil {
		return nil, cutOff(err)
	}
	if halted {
		go taken.Halt() // Sending may block on the network; it ends with the stream.
	}
	r.worked.start()
	crash.At(crash.RunDispatched)
	return taken, nil
}

// cutOff returns the error of a run whose stream broke. [contract.HarnessStopping] is returned as it is.
func cutOff(err error) *fault.Error {
	if contract.IsHarnessStopping(err) {
		return fault.From(err)
	}
	switch fault.CodeOf(err) {
	case fault.Unavailable, fault.Cancelled, fault.DeadlineExceeded, fault.Internal:
		return fault.Wrap(err, fault.Interrupted, "The run was cut off; its completed steps are kept.")
	}
	return fault.From(err)
}
