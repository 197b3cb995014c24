package runs

import (
	"cmp"
	"errors"
	"runtime/debug"
	"slices"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/sessions/core/frames"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/transcript"
)

// relay turns a run's events into frames and records. It is used by one goroutine.
type relay struct {
	*Run
	scratch []byte // reused for payloads
	root    agent
	started *contract.MessageStart
	// below are the active agents below the root, by invocation id; order has the ids in the order of their start;
	// used is the use of the ended ones.
	below map[string]*agent
	order []string
	used  record.Below
	// ends are closed when the ends of agents are on disk; held are the frames to show after that; see [relay.settle].
	ends []chan struct{}
	held []frames.Payload
	// answers are the ended children of the root whose results are not stored.
	answers []record.Invocation
	// debugged are the debug sessions that have not ended, by id.
	debugged map[string]contract.DebugEvent
}

// newRelay returns a relay, with its state restored if the run was handed over.
func newRelay(r *Run) *relay {
	l := &relay{Run: r, below: map[string]*agent{}}
	c := r.spec.Continued
	if c == nil {
		return l
	}
	l.root.steps, l.used, l.answers = slices.Clone(c.Steps), c.Below, c.Answers
	for _, i := range c.Invocations {
		l.below[i.ID] = &agent{Invocation: i, steps: slices.Clone(i.Kept)}
		l.order = append(l.order, i.ID)
	}
	return l
}

// run reads events until the run is over and returns its end. A panic fails the run and leaves the process running.
func (l *relay) run() (end ending) {
	defer func() {
		if p := recover(); p != nil {
			l.Log.Error("a run panicked", "run", l.ID(), "panic", p, "stack", string(debug.Stack()))
			l.stop(nil)
			end = l.failed(fault.New(fault.Internal, "Something went wrong inside kaged; the log has the cause."))
		}
	}()
	stream, err := l.open()
	for {
		if contract.IsHarnessStopping(err) {
			if stream, err = l.openAgain(); stream == nil && err == nil {
				return l.finished(contract.Finished{Outcome: contract.HandedOver})
			}
			continue
		}
		if err != nil {
			return l.early(fault.From(err))
		}
		var happening contract.Happening
		if happening, err = l.next(stream); err != nil {
			err = cutOff(err)
			continue
		}
		if f, ok := happening.Event.(contract.Finished); ok {
			return l.finished(f)
		}
		if err := l.handle(happening); err != nil {
			l.stop(nil)
			return l.early(fault.From(err))
		}
	}
}

func (l *relay) handle(h contract.Happening) error {
	if len(l.ends) > 0 && !l.follows(h) {
		if err := l.settle(true); err != nil {
			return err
		}
	}
	if h.InvocationID != "" {
		return l.child(h.InvocationID, h.Event)
	}
	switch e := h.Event.(type) {
	case contract.Delta:
		return l.delta(e)
	case contract.MessageStart:
		l.started = &e
		return l.emit(frames.MessageStart{
			MessageID: l.spec.Run.MessageID, RunID: l.ID(), Role: string(record.Primary), Provider: e.Provider, Model: e.Model,
			Rehearsal: e.Driver == rehearsal, StartedAt: e.StartedAt,
		})
	case contract.ToolStarted:
		return l.emit(frames.MessageToolCall{MessageID: l.spec.Run.MessageID, Call: e.Call})
	case contract.ToolOutput:
		return l.output(e)
	case contract.ToolFinished:
		l.took(&l.root, e)
		return l.emit(frames.MessageToolResult{
			MessageID: l.spec.Run.MessageID, Result: e.Result, Input: e.Input,
		})
	case contract.Retracted:
		l.record(e.Audit)
		return l.emit(frames.MessageRetract{MessageID: l.spec.Run.MessageID, Step: e.Step, Reason: e.Reason})
	case contract.AuditMoved:
		l.keep(job{head: &e.Head})
		return nil
	case contract.SessionStarted:
		l.keep(job{injections: &e.Injections})
		return nil
	}
	return l.step(&l.root, h.Event)
}

// step handles the events that every agent has.
func (l *relay) step(a *agent, event contract.Event) error {
	switch e := event.(type) {
	case contract.TurnDone:
		return l.turn(a, e)
	case contract.StepDone:
		return l.stepDone(a, e)
	case contract.ApprovalRequested:
		l.ask(a.ID, e)
	case contract.CallWanted:
		return l.wanted(a.ID, e)
	case contract.CallSettled:
		l.settled(a, e)
	case contract.CageChanged:
		return l.cage(a, e)
	case contract.Compaction:
		return l.compaction(a, e)
	case contract.Told:
		return l.told(a.ID, e)
	}
	return nil
}

// told audits and shows an event.
func (l *relay) told(invocation string, e contract.Told) error {
	if records := e.Records(); len(records) > 0 {
		l.record(records...)
	}
	if e.FrameType().Name == "" {
		return nil
	}
	if d, ok := e.(contract.DebugEvent); ok {
		l.note(d)
	}
	return l.emit(frames.Told{SessionID: l.spec.Session.ID, RunID: l.ID(), InvocationID: invocation, Event: e})
}

// note tracks the debug sessions that have not ended.
func (l *relay) note(e contract.DebugEvent) {
	if e.End != nil {
		delete(l.debugged, e.ID)
		return
	}
	if l.debugged == nil {
		l.debugged = map[string]contract.DebugEvent{}
	}
	l.debugged[e.ID] = contract.DebugEvent{ID: e.ID, Invocation: e.Invocation, Agent: e.Agent}
}

// endDebugging shows the end of the debug sessions that end with the run.
func (l *relay) endDebugging() {
	for _, e := range l.debugged {
		e.At, e.End = now(), &contract.DebugEnd{Reason: contract.DebugRunEnded}
		if err := l.emit(frames.Told{RunID: l.ID(), Event: e}); err != nil {
			return // the session is lost; its next holder shows the end of the run
		}
	}
}

// rehearsal is the driver of scripted models.
const rehearsal = "rehearsal"

func (l *relay) emit(p frames.Payload) error {
	if len(l.ends) > 0 {
		l.held = append(l.held, p)
		return nil
	}
	f, err := frames.Render(l.Renderer, l.scratch[:0], p)
	if err != nil {
		return err
	}
	l.scratch = f.Payload
	return l.writer.Emit(l.patience, f)
}

func (l *relay) delta(d contract.Delta) error {
	if 6*len(d.Text) <= frames.MaxText {
		return l.emit(frames.MessageDelta{MessageID: l.spec.Run.MessageID, Delta: d.Text, Thinking: d.Thinking})
	}
	for _, piece := range clip.JSONPieces(d.Text, frames.MaxText) {
		if err := l.emit(frames.MessageDelta{
			MessageID: l.spec.Run.MessageID, Delta: piece, Thinking: d.Thinking,
		}); err != nil {
			return err
		}
	}
	return nil
}

func (l *relay) output(o contract.ToolOutput) error {
	for _, piece := range clip.JSONPieces(o.Text, frames.MaxText) {
		err := l.emit(frames.MessageToolOutput{
			MessageID: l.spec.Run.MessageID, ToolCallID: o.CallID, Stream: o.Stream, Text: piece,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// took handles a tool's result.
func (l *relay) took(a *agent, e contract.ToolFinished) {
	if n := len(a.steps); n > 0 && a.steps[n-1].Step == e.Step && !a.steps[n-1].Done {
		a.steps[n-1].Results = append(a.steps[n-1].Results, e.Result)
	}
	for i := range e.Ledger {
		e.Ledger[i].RunID = l.ID()
	}
	if len(e.Audit) > 0 || len(e.Ledger) > 0 {
		l.keep(job{
			audit: l.abouts(e.Audit...), files: changed(a, contract.FilesChanged(e.Audit)), ledger: e.Ledger,
		})
	}
}

// changed adds files to those that an agent below the root has changed, and returns the row to store: its caller
// learns of them even if the agent is cut off.
func changed(a *agent, paths []string) []record.InvocationFiles {
	if a == nil || a.ID == "" || !a.Change(paths...) {
		return nil
	}
	return []record.InvocationFiles{{ID: a.ID, Changed: a.FilesChanged}}
}

// errOutOfStep is the failure of a harness that reports steps out of order.
var errOutOfStep = fault.New(fault.Internal, "The harness reported the steps of the run out of order.")

func (l *relay) turn(a *agent, e contract.TurnDone) error {
	if e.Step != len(a.steps)+1 {
		return errOutOfStep
	}
	turn := transcript.Turn{Turn: e.Turn, At: now()}
	a.steps = append(a.steps, transcript.Step{Turn: turn})
	l.keep(job{
		halves: []record.StepHalf{{RunID: l.ID(), InvocationID: a.ID, Step: e.Step, Turn: &turn}},
		acks:   []Half{{InvocationID: a.ID, Step: e.Step}}, settled: a.settled,
		now: e.Wait,
	})
	a.settled = nil
	return nil
}

func (l *relay) stepDone(a *agent, e contract.StepDone) error {
	n := len(a.steps)
	if n == 0 || a.steps[n-1].Step != e.Step || a.steps[n-1].Done {
		return errOutOfStep
	}
	step := &a.steps[n-1]
	step.Done = true
	inOrder(step)
	boundary := 0
	if a.ID == "" && !e.Last {
		boundary = e.Step
	}
	// If a request follows, the results are committed with its audit record.
	alone := a.ID == "" && e.Last
	l.keep(job{
		boundary: boundary,
		halves:   []record.StepHalf{{RunID: l.ID(), InvocationID: a.ID, Step: e.Step, Results: slices.Clone(step.Results)}},
		acks:     []Half{{InvocationID: a.ID, Step: e.Step, Results: true}},
		now:      alone, soon: !alone,
	})
	if a.ID == "" {
		l.answers = nil
	}
	if !alone {
		return nil
	}
	return l.settle(false)
}

// inOrder sorts results, which arrive as the tools finish, into the order of their calls.
func inOrder(step *transcript.Step) {
	place := make(map[string]int, len(step.Blocks))
	for i, b := range step.Blocks {
		if b.Call != nil {
			place[b.Call.ID] = i
		}
	}
	slices.SortStableFunc(step.Results, func(a, b llm.ToolResult) int {
		return cmp.Compare(place[a.CallID], place[b.CallID])
	})
}

// about returns a record of the harness as an audit record of this run.
func (r *Run) about(record contract.Record) audit.Record {
	of := audit.Of(record)
	of.RequestID, of.RunID = r.spec.RequestID, r.ID()
	return r.spec.Session.Audited(of)
}

// abouts is [Run.about] for several records.
func (r *Run) abouts(records ...contract.Record) []audit.Record {
	list := make([]audit.Record, len(records))
	for i, record := range records {
		list[i] = r.about(record)
	}
	return list
}

// record hands records of the harness to the keeper.
func (l *relay) record(records ...contract.Record) { l.keep(job{audit: l.abouts(records...)}) }

// keep hands a job to the keeper.
func (l *relay) keep(j job) { l.jobs <- j }

// early returns the end of a run that ends without a report of the harness.
func (l *relay) early(err *fault.Error) ending {
	switch reason := l.reason(); {
	case errors.Is(reason, errCancelled):
		return l.ended(contract.Finished{Outcome: contract.Cancelled, Stop: llm.StopAborted})
	case overtime(reason) != nil:
		l.refused(overtime(reason))
		return l.failed(overtime(reason))
	case errors.Is(reason, errInterrupted):
		return l.failed(
			fault.New(fault.Interrupted, "The run was cut off because kaged stopped; its completed steps are kept."),
		)
	}
	return l.failed(err)
}

func (l *relay) failed(err *fault.Error) ending {
	return l.ended(contract.Finished{Outcome: contract.Failed, Stop: llm.StopError, Err: err})
}

// finished returns the end that the harness reports.
func (l *relay) finished(f contract.Finished) ending {
	if f.Outcome == contract.HandedOver {
		if l.reason() != nil {
			return l.early(fault.New(fault.Interrupted, "The run was cut off; its completed steps are kept."))
		}
		l.settleAll()
		return ending{Finished: f}
	}
	if over := overtime(l.reason()); over != nil && f.Outcome == contract.Cancelled {
		l.refused(over)
		f.Outcome, f.Stop, f.Err, f.Detail = contract.Failed, llm.StopError, over, nil
	}
	if f.Outcome == contract.Failed && f.Err == nil {
		f.Err = fault.New(fault.Internal, "The run failed and the harness did not say why.")
	}
	return l.ended(f)
}

func (l *relay) ended(f contract.Finished) ending {
	l.settleAll()
	l.endDebugging()
	e := ending{Finished: f, steps: l.root.steps, used: l.used, answers: l.answers}
	for _, id := range l.order {
		e.open = append(e.open, l.below[id])
	}
	if l.started != nil {
		e.provider, e.model = l.started.Provider, l.started.Model
	}
	return e
}
