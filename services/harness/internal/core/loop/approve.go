package loop

import (
	"context"
	"sync"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/llm"
)

// Subject is what an operator is asked to allow: one call, as it would act if it were made now.
type Subject struct {
	// Tool is the canonical name, Agent the tree path of the caller.
	Tool, Agent string
	// Reasons say why the call needs approval, one sentence each.
	Reasons []string
	// Command and Cwd are the exact command and its folder, "" for none.
	Command, Cwd string
	// Paths are the files it changes.
	Paths []string
	// Preview is the change as a unified diff, "" where it cannot be shown.
	Preview string
}

// Question is the end of a call that was not made because an operator has to allow it.
type Question struct {
	Subject Subject
	// Fingerprint stands for the subject; a grant names it.
	Fingerprint string
}

// ApprovalRequested is a call that waits for an operator.
type ApprovalRequested struct {
	// ID is unique everywhere, CallID is the model's.
	ID, CallID string
	Step       int
	Subject    Subject
	// Audit are the records of the call so far.
	Audit []Record
}

func (ApprovalRequested) event() {}

// Verdict is how a request for approval ended.
type Verdict int

// The verdicts. Whatever is none of them is a refusal.
const (
	Approved Verdict = iota + 1
	Denied
	Expired
)

// Decision is an operator's answer.
type Decision struct {
	Verdict Verdict
	// Comment is what the operator says to the agent, "" for nothing.
	Comment string
}

// maxQuestions is how often one call is asked about: what it would do can change while the operator thinks.
const maxQuestions = 3

// approved makes a call as often as it takes until it needs no further answer. asked says whether the tool runner has
// recorded the call already.
func (r *run) approved(ctx context.Context, step int, c llm.ToolCall, req ToolRequest, output func(stream, text string)) (out ToolOutcome, asked bool, err error) {
	for n := 0; ; n++ {
		out, err = r.deps.Tools.Run(ctx, req, output)
		if err != nil || out.Question == nil {
			return out, asked, err
		}
		if n == maxQuestions {
			f := fault.New(fault.ApprovalRequired, "What the call would do keeps changing, so it was not made.")
			return r.refused(c, f), true, nil
		}
		asked = true
		decision, err := r.ask(ctx, ApprovalRequested{ID: ident.New(), CallID: c.ID, Step: step, Subject: out.Question.Subject, Audit: out.Audit})
		if err != nil {
			f := fault.Wrap(err, fault.CodeOf(err), "The call was not made: the run ended before an operator answered.")
			return r.refused(c, f), true, nil
		}
		if f := refusal(decision); f != nil {
			return r.refused(c, f), true, nil
		}
		req.Grant = out.Question.Fingerprint
	}
}

// ask waits for an operator. A service that stops waits for nobody.
func (r *run) ask(ctx context.Context, q ApprovalRequested) (Decision, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var watching sync.WaitGroup
	answered := make(chan struct{})
	watching.Go(func() {
		select {
		case <-r.deps.Stopping:
			cancel(errStopping)
		case <-answered:
		}
	})
	defer watching.Wait()
	defer close(answered)
	decision, err := r.sink.Ask(ctx, q)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return decision, err
}

// refusal returns what the model is told of a decision against a call, nil for one that allows it.
func refusal(d Decision) *fault.Error {
	switch {
	case d.Verdict == Approved:
		return nil
	case d.Verdict == Expired:
		return fault.New(fault.ApprovalExpired, "No operator answered in time, so the call was not made.")
	case d.Comment != "":
		return fault.New(fault.ApprovalDenied, "The operator denied the call and says: %s", valid(d.Comment)).With("comment", valid(d.Comment))
	}
	return fault.New(fault.ApprovalDenied, "The operator denied the call.")
}

// refused is the outcome of a call that was asked about and not made. The time the operator took is not the tool's.
func (r *run) refused(c llm.ToolCall, f *fault.Error) ToolOutcome {
	out := r.failedCall(c, f, time.Duration(0))
	out.Audit = out.Audit[1:] // that it was called is recorded with the question
	return out
}
