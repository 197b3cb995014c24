package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"kaged.dev/pkg/compile"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/redact"
)

// toolTurn holds the tool calls of one turn while they run.
type toolTurn struct {
	run  *invocation
	step int

	mu       sync.Mutex // guards the fields below, and the order of results
	calls    []toolCall
	released int  // number of results sent
	open     bool // a call is left to the next harness
	err      error
}

// toolCall is one call of a turn.
type toolCall struct {
	call     llm.ToolCall
	parallel bool
	// child is the called agent, nil for a tool. nth counts the turn's calls of children, from 0.
	child   *compile.Agent
	nth     int
	started bool
	outcome *ToolOutcome // nil until the call has ended
	// known is the call's result from before the run was handed over. told is true once the result is sent.
	known *llm.ToolResult
	told  bool
}

// runTools runs the calls of a turn and returns their results in call order. It fails with the sink's error. A call
// that the end of ctx cut off or prevented has a result that says so. It fails with errHandOver if a call is left to
// the next harness; the results of the others are sent.
func (v *invocation) runTools(ctx context.Context, calls []llm.ToolCall) ([]llm.Block, error) {
	t := &toolTurn{run: v, step: v.step}
	agents := 0
	for _, c := range calls {
		one := toolCall{call: c, parallel: v.parallel(c), child: v.offers[c.Name].child, nth: agents}
		if one.child != nil {
			agents++
		}
		t.calls = append(t.calls, one)
	}
	stored := v.known(t)
	for i := 0; i < len(t.calls) && ctx.Err() == nil && !t.open; {
		n := t.alike(i)
		if t.calls[i].effects() && !stored {
			// A call with effects runs only after its turn is on disk. A call of a child need not wait: a child has no
			// effects before the record of its first request is on disk, and that record is stored after this turn.
			if err := v.awaitStored(ctx, TurnPart); err != nil {
				break
			}
			stored = true
		}
		if t.calls[i].child != nil {
			t.agents(ctx, i, i+n)
		} else {
			t.group(ctx, i, i+n)
		}
		i += n
	}
	return t.finish(context.Cause(ctx))
}

// effects reports whether a call may only run after its turn is stored.
func (c toolCall) effects() bool { return !c.parallel && c.child == nil }

// alike returns how many calls, from the first one on, run at once: parallel tools, or children.
func (t *toolTurn) alike(first int) int {
	c, n := t.calls[first], 1
	for first+n < len(t.calls) {
		next := t.calls[first+n]
		if !(c.parallel && next.parallel || c.child != nil && next.child != nil) {
			break
		}
		n++
	}
	return n
}

// parallel reports whether a call may run beside others and before its turn is stored. All calls of some tools may,
// and the read-only calls of others. A call of an unknown tool may not.
func (v *invocation) parallel(c llm.ToolCall) bool {
	o, ok := v.offers[c.Name]
	return ok && (o.parallel || o.readWhen.Holds([]byte(c.Input)))
}

// group runs the calls from first to before end at once, and returns when all have ended.
func (t *toolTurn) group(ctx context.Context, first, end int) {
	var wg sync.WaitGroup
	free := make(chan struct{}, t.run.deps.Limits.Parallel)
	for i := first; i < end; i++ {
		if t.calls[i].outcome != nil {
			continue
		}
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil || !t.start(i) {
			break
		}
		if end-first == 1 {
			t.one(ctx, i)
			break
		}
		wg.Go(func() {
			defer func() { <-free }()
			t.one(ctx, i)
		})
	}
	wg.Wait()
}

// start announces a call and reports whether it may run.
func (t *toolTurn) start(i int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil || t.calls[i].started {
		return t.err == nil
	}
	t.calls[i].started = true
	t.err = t.run.emit(contract.ToolStarted{Step: t.step, Call: t.calls[i].call})
	return t.err == nil
}

// one runs a call and settles its result.
func (t *toolTurn) one(ctx context.Context, i int) {
	began := time.Now()
	c := t.calls[i].call
	ctx, over := t.run.deps.Watch.Tool(ctx, t.run.toolSeen(t.calls[i]))
	out, asked, err := t.run.make(ctx, t.step, t.calls[i])
	if errors.Is(err, errHandOver) && ctx.Err() == nil {
		over(out)
		t.leave()
		return
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		known := out
		out = t.run.brokenOff(c, err, time.Since(began), asked, known.Content)
		if out.CageOver = known.CageOver; len(known.Audit) > 0 {
			out.Audit = known.Audit
		}
	}
	if out.CageOver && t.run.cage != nil {
		t.run.cage.over.Store(true)
	}
	over(out)
	t.run.changed(contract.FilesChanged(out.Audit)...)
	t.settle(i, out)
}

// leave leaves a call to the next harness.
func (t *toolTurn) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open = true
}

// settle stores the outcome of a call.
func (t *toolTurn) settle(i int, out ToolOutcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls[i].outcome = &out
	t.release()
}

// release sends the next results in call order. The caller holds mu.
func (t *toolTurn) release() {
	for t.err == nil && t.released < len(t.calls) && t.calls[t.released].outcome != nil {
		t.tell(&t.calls[t.released])
		t.released++
	}
}

// tell sends the result of a call, once. The caller holds mu.
func (t *toolTurn) tell(c *toolCall) {
	if c.told {
		return
	}
	c.told = true
	entries := t.run.entered(t.step, t.run.canonicalName(c.call.Name), c.outcome)
	t.run.looped(t.step, c)
	t.err = t.run.emit(contract.ToolFinished{
		Step: t.step, Input: c.call.Input, Result: result(c), Err: c.outcome.Err,
		Audit: c.outcome.Audit, Ledger: entries,
	})
}

// handOver sends the results that wait behind calls left to the next harness. The caller holds mu.
func (t *toolTurn) handOver() error {
	for i := range t.calls {
		if t.err == nil && t.calls[i].outcome != nil {
			t.tell(&t.calls[i])
		}
	}
	return cmp.Or(t.err, errHandOver)
}

func result(c *toolCall) llm.ToolResult {
	if c.known != nil {
		return *c.known
	}
	return llm.ToolResult{
		CallID: c.call.ID, Name: c.call.Name, Content: c.outcome.Content, IsError: c.outcome.Err != nil,
		DurationMS: contract.WholeMS(c.outcome.Duration),
	}
}

// finish gives a result to each call that never ran, sends unsent results, and returns all results.
func (t *toolTurn) finish(cause error) ([]llm.Block, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open && cause == nil {
		return nil, t.handOver()
	}
	results := make([]llm.Block, len(t.calls))
	for i := range t.calls {
		c := &t.calls[i]
		if c.outcome == nil {
			if !c.started && t.err == nil {
				t.err = t.run.emit(contract.ToolStarted{Step: t.step, Call: c.call})
			}
			out := t.run.neverRan(c.call, cause)
			c.outcome = &out
			t.release()
		}
		res := result(c)
		results[i] = llm.Block{Result: &res}
	}
	return results, t.err
}

// make makes one call, of a child or of a tool. A panic becomes an error.
func (v *invocation) make(ctx context.Context, step int, one toolCall) (out ToolOutcome, asked bool, err error) {
	c := one.call
	defer func() {
		if p := recover(); p != nil {
			v.deps.Log.ErrorContext(ctx, "tool call panicked", "run_id", v.start.RunID, "tool", c.Name, "panic", p, "stack",
				string(debug.Stack()))
			err = fault.New(fault.Internal, "Something went wrong inside kaged; the log has the cause.")
		}
	}()
	if one.child != nil {
		out, err = v.delegate(ctx, c, one.child)
		return out, false, err
	}
	return v.tool(ctx, step, c)
}

// tool runs one call at the tool runner, after an operator's approval if it needs one. asked reports whether it
// asked. The content of a call that breaks off is the end of its output.
func (v *invocation) tool(ctx context.Context, step int, c llm.ToolCall) (out ToolOutcome, asked bool, err error) {
	req := ToolRequest{
		CallID: fmt.Sprintf("%s.%d.%s", v.start.RunID, step, c.ID), Tool: c.Name, Input: c.Input, Context: v.toolContext,
	}
	v.awaitWorkspace(ctx)
	var tail outputTail
	out, asked, err = v.approved(ctx, step, c, req, func(stream, text string) {
		tail.add(text)
		// A failing sink ends ctx, and with it the call.
		_ = v.emit(contract.ToolOutput{CallID: c.ID, Stream: stream, Text: text})
	})
	if err != nil {
		out.Content = tail.String()
	}
	out.Content = valid(out.Content)
	return out, asked, err
}

// brokenOff returns the outcome of a call without a result, with the end of its output. asked is true if the question's
// records hold the start of the call.
func (v *invocation) brokenOff(c llm.ToolCall, err error, took time.Duration, asked bool, output string) ToolOutcome {
	f := fault.From(err)
	switch f.Code {
	case fault.Cancelled:
		f = fault.Wrap(err, fault.Cancelled, "The call was cancelled while it ran. It may have had effects.")
	case fault.Interrupted:
		f = fault.Wrap(err, fault.Interrupted, "%s The call may have had effects: look before you call it again.", f.Msg)
	case fault.Unavailable:
		f = fault.Wrap(err, fault.Unavailable, "%s It is not known whether the call had effects: look before you call "+
			"it again.", f.Msg)
	}
	out := v.failedCall(c, f, took)
	if output != "" {
		out.Content = (&fault.Error{Code: f.Code, Msg: f.Msg}).With("output", output).ToolError()
	}
	if asked {
		out.Audit = out.Audit[1:]
	}
	return out
}

// neverRan returns the outcome of a call that never ran because the run ended.
func (v *invocation) neverRan(c llm.ToolCall, cause error) ToolOutcome {
	code := fault.Cancelled
	if fault.CodeOf(cause) == fault.Interrupted {
		code = fault.Interrupted
	}
	return v.failedCall(c, fault.New(code, "The call was not made: the run ended before it."), 0)
}

// failedCall returns the outcome of a call that has none from the tool runner. The tool runner's records of the call
// are lost, so failedCall makes them.
func (v *invocation) failedCall(c llm.ToolCall, f *fault.Error, took time.Duration) ToolOutcome {
	tool := v.canonicalName(c.Name)
	params := redact.Params([]byte(c.Input), redact.ValueBytes)
	shown := &fault.Error{Code: f.Code, Msg: f.Msg} // the details are about services, not about the call
	return ToolOutcome{Content: shown.ToolError(), Err: f, Duration: took, Audit: []contract.Record{
		v.toolContext.Record(contract.ToolCalled, contract.CalledFields(tool, params)),
		v.toolContext.Record(contract.ToolCompleted, contract.CompletedFields(tool, took, f)),
	}}
}
