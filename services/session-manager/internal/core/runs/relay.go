package runs

import (
	"cmp"
	"runtime/debug"
	"slices"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/services/session-manager/internal/core/audit"
	"kaged.dev/services/session-manager/internal/core/frames"
	"kaged.dev/services/session-manager/internal/core/record"
	"kaged.dev/services/session-manager/internal/core/transcript"
)

// relay turns a run's events into frames and into what is to be kept. It is used by one goroutine.
type relay struct {
	*Run
	scratch []byte // for payloads
	steps   []transcript.Step
	started *Started
}

// run reads events until the run is over and returns its end. A panic is a failed run, not a dead process.
func (l *relay) run() (end ending) {
	defer func() {
		if p := recover(); p != nil {
			l.Log.Error("a run panicked", "run", l.ID(), "panic", p, "stack", string(debug.Stack()))
			l.stop(nil)
			end = l.failed(fault.New(fault.Internal, "Something went wrong inside kaged; the log has the cause."))
		}
	}()
	stream, err := l.open()
	if err != nil {
		return l.early(fault.From(err))
	}
	for {
		event, err := stream.Recv()
		if err != nil {
			return l.early(cutOff(err))
		}
		if f, ok := event.(Finished); ok {
			return l.finished(f)
		}
		if err := l.handle(event); err != nil {
			l.stop(nil)
			return l.early(fault.From(err))
		}
	}
}

func (l *relay) handle(event Event) error {
	switch e := event.(type) {
	case Delta:
		return l.delta(e)
	case Started:
		l.started = &e
		return l.emit(frames.MessageStart{
			MessageID: l.spec.Run.MessageID, RunID: l.ID(), Role: string(record.Primary), Provider: e.Provider, Model: e.Model,
			Rehearsal: e.Driver == rehearsal, StartedAt: e.At,
		})
	case ToolStarted:
		return l.emit(frames.MessageToolCall{MessageID: l.spec.Run.MessageID, Call: e.Call})
	case ToolOutput:
		return l.output(e)
	case ToolFinished:
		return l.result(e)
	case TurnDone:
		return l.turn(e)
	case StepDone:
		return l.stepDone(e)
	case Asked:
		l.ask(e)
	case Recorded:
		l.keep(job{audit: []audit.Record{l.about(e.Record)}})
	case CageChanged:
		return l.cage(e)
	case NetworkTried:
		return l.network(e)
	case HeadMoved:
		l.keep(job{head: &e.Head})
	case Retried:
		return l.emit(frames.RunRetry{
			RunID: l.ID(), Error: e.Error, Attempt: e.Attempt, DelayMS: e.DelayMS, Provider: e.Provider, Model: e.Model,
		})
	}
	return nil
}

// rehearsal is the driver that plays a script.
const rehearsal = "rehearsal"

func (l *relay) emit(p frames.Payload) error {
	f, err := frames.Render(l.Renderer, l.scratch[:0], p)
	if err != nil {
		return err
	}
	l.scratch = f.Payload
	return l.desk.Emit(l.patience, f)
}

func (l *relay) delta(d Delta) error {
	if 6*len(d.Text) <= frames.MaxText {
		return l.emit(frames.MessageDelta{MessageID: l.spec.Run.MessageID, Delta: d.Text, Thinking: d.Thinking})
	}
	for _, piece := range frames.Split(d.Text, frames.MaxText) {
		if err := l.emit(frames.MessageDelta{MessageID: l.spec.Run.MessageID, Delta: piece, Thinking: d.Thinking}); err != nil {
			return err
		}
	}
	return nil
}

func (l *relay) output(o ToolOutput) error {
	for _, piece := range frames.Split(o.Text, frames.MaxText) {
		err := l.emit(frames.MessageToolOutput{MessageID: l.spec.Run.MessageID, ToolCallID: o.CallID, Stream: o.Stream, Text: piece})
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *relay) result(e ToolFinished) error {
	if n := len(l.steps); n > 0 && l.steps[n-1].Step == e.Step && !l.steps[n-1].Done {
		l.steps[n-1].Results = append(l.steps[n-1].Results, e.Result)
	}
	if len(e.Audit) > 0 {
		records := make([]audit.Record, len(e.Audit))
		for i, r := range e.Audit {
			records[i] = l.about(r)
		}
		l.keep(job{audit: records})
	}
	return l.emit(frames.MessageToolResult{
		MessageID: l.spec.Run.MessageID, Result: e.Result, Input: e.Input, DurationMS: e.DurationMS,
	})
}

// errOutOfStep is a harness that reports steps other than one after the other.
var errOutOfStep = fault.New(fault.Internal, "The harness reported the steps of the run out of order.")

func (l *relay) turn(e TurnDone) error {
	if e.Step != len(l.steps)+1 {
		return errOutOfStep
	}
	e.At = now()
	l.steps = append(l.steps, transcript.Step{Turn: e.Turn})
	l.keep(job{
		halves: []record.StepHalf{{RunID: l.ID(), Step: e.Step, Turn: &e.Turn}},
		acks:   []Half{{Step: e.Step}},
		now:    e.Wait,
	})
	return nil
}

func (l *relay) stepDone(e StepDone) error {
	n := len(l.steps)
	if n == 0 || l.steps[n-1].Step != e.Step || l.steps[n-1].Done {
		return errOutOfStep
	}
	step := &l.steps[n-1]
	step.Done = true
	inOrder(step)
	l.keep(job{
		halves: []record.StepHalf{{RunID: l.ID(), Step: e.Step, Results: slices.Clone(step.Results)}},
		acks:   []Half{{Step: e.Step, Results: true}},
		now:    true,
	})
	return nil
}

// inOrder sorts results, which come as the tools finish, as their calls are.
func inOrder(step *transcript.Step) {
	place := make(map[string]int, len(step.Blocks))
	for i, b := range step.Blocks {
		if b.Call != nil {
			place[b.Call.ID] = i
		}
	}
	slices.SortStableFunc(step.Results, func(a, b llm.ToolResult) int { return cmp.Compare(place[a.CallID], place[b.CallID]) })
}

// about returns a record of the harness as one of this run.
func (l *relay) about(r audit.Record) audit.Record {
	r.UserID, r.RequestID = l.spec.Session.Owner, l.spec.RequestID
	r.ProjectID, r.SessionID, r.RunID = l.spec.Session.ProjectID, l.spec.Session.ID, l.ID()
	return r.Clean()
}

// keep hands a job to the keeper.
func (l *relay) keep(j job) { l.jobs <- j }

// early returns the end of a run that did not get to say how it ended.
func (l *relay) early(err *fault.Error) ending {
	switch l.reason() {
	case errCancelled:
		return l.ended(Finished{Outcome: Cancelled, Stop: llm.StopAborted})
	case errInterrupted:
		return l.failed(fault.New(fault.Interrupted, "The run was cut off because kaged stopped; its completed steps are kept."))
	}
	return l.failed(err)
}

func (l *relay) failed(err *fault.Error) ending {
	return l.ended(Finished{Outcome: Failed, Stop: llm.StopError, Error: err})
}

// finished returns the end as the harness reports it.
func (l *relay) finished(f Finished) ending {
	if f.Outcome == Failed && f.Error == nil {
		f.Error = fault.New(fault.Internal, "The run failed and the harness did not say why.")
	}
	return l.ended(f)
}

func (l *relay) ended(f Finished) ending {
	e := ending{Finished: f, steps: l.steps}
	if l.started != nil {
		e.provider, e.model = l.started.Provider, l.started.Model
	}
	return e
}
