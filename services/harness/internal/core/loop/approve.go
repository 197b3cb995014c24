package loop

import (
	"context"
	"errors"
	"sync"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
)

// maxQuestions is the most questions about one call. The call's effects can change while the operator thinks.
const maxQuestions = 3

// approved makes a call, and makes it again after each approval until no question is left. asked reports whether the
// tool runner has recorded the call already.
func (v *invocation) approved(
	ctx context.Context, step int, c llm.ToolCall, req ToolRequest, output func(stream, text string),
) (out ToolOutcome, asked bool, err error) {
	for n := 0; ; n++ {
		out, err = v.deps.Tools.Run(ctx, req, output)
		if err != nil || out.Question == nil {
			return out, asked, err
		}
		if n == maxQuestions {
			f := fault.New(fault.ApprovalRequired, "The call's effects changed after each approval, so it was not made.")
			return v.refused(c, f), true, nil
		}
		asked = true
		decision, err := v.ask(ctx, contract.ApprovalRequested{
			ID: v.approvalID(c.ID), CallID: c.ID, Step: step, Subject: out.Question.Subject, Audit: out.Audit,
		})
		if errors.Is(err, errHandOver) {
			return out, true, err
		}
		if err != nil {
			f := fault.Wrap(err, fault.CodeOf(err), "The call was not made: the run ended before an operator answered.")
			return v.refused(c, f), true, nil
		}
		if f := refusal(decision); f != nil {
			return v.refused(c, f), true, nil
		}
		req.Grant = out.Question.Fingerprint
	}
}

// ask waits for an operator's answer. It fails with errHandOver when the service stops; the question then stays open.
func (v *invocation) ask(ctx context.Context, q contract.ApprovalRequested) (contract.Decision, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var watching sync.WaitGroup
	answered := make(chan struct{})
	watching.Go(func() {
		select {
		case <-v.deps.Stopping:
			cancel(errHandOver)
		case <-answered:
		}
	})
	defer watching.Wait()
	defer close(answered)
	defer v.account.Wait()()
	decision, err := v.sink.Ask(ctx, v.id, q)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return decision, err
}

// refusal returns the error that a denied or expired call has for the model, nil for an approved call.
func refusal(d contract.Decision) *fault.Error {
	switch {
	case d.Verdict == contract.Approved:
		return nil
	case d.Verdict == contract.Expired:
		return fault.New(fault.ApprovalExpired, "No operator answered in time, so the call was not made.")
	case d.Comment != "":
		return fault.New(fault.ApprovalDenied, "The operator denied the call and says: %s", valid(d.Comment)).
			With("comment", valid(d.Comment))
	}
	return fault.New(fault.ApprovalDenied, "The operator denied the call.")
}

// refused returns the outcome of a call that was asked about and not made. The operator's thinking time does not
// count as the tool's.
func (v *invocation) refused(c llm.ToolCall, f *fault.Error) ToolOutcome {
	out := v.failedCall(c, f, time.Duration(0))
	out.Audit = out.Audit[1:] // the question's records hold the start of the call already
	return out
}
