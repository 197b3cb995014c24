package loop

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/redact"
)

// toolTurn is the tool calls of one turn on their way.
type toolTurn struct {
	run  *run
	step int

	mu       sync.Mutex // guards the fields below, and keeps results in order
	calls    []toolCall
	released int // how many results were sent
	err      error
}

// toolCall is one call of a turn.
type toolCall struct {
	call     llm.ToolCall
	parallel bool
	started  bool
	outcome  *ToolOutcome // nil until it is done
}

// runTools runs the calls of a turn and returns their results in call order. It fails only as the sink does; a call that the
// end of ctx cut off or kept from running has a result that says so.
func (r *run) runTools(ctx context.Context, calls []llm.ToolCall) ([]llm.Block, error) {
	t := &toolTurn{run: r, step: r.step}
	for _, c := range calls {
		t.calls = append(t.calls, toolCall{call: c, parallel: r.parallel(c.Name)})
	}
	stored := false
	for i := 0; i < len(t.calls) && ctx.Err() == nil; {
		n := 1
		if t.calls[i].parallel {
			for i+n < len(t.calls) && t.calls[i+n].parallel {
				n++
			}
		} else if !stored {
			// Nothing that changes the world runs before the turn that asked for it is on disk.
			if err := r.awaitStored(ctx, TurnPart); err != nil {
				break
			}
			stored = true
		}
		t.group(ctx, i, i+n)
		i += n
	}
	return t.finish(context.Cause(ctx))
}

// parallel reports whether a call may run beside others and before its turn is stored. A tool that is not known may not.
func (r *run) parallel(name string) bool {
	o, ok := r.offers[name]
	return ok && o.parallel
}

// group runs the calls from first to before end side by side and returns when all are done.
func (t *toolTurn) group(ctx context.Context, first, end int) {
	var wg sync.WaitGroup
	free := make(chan struct{}, t.run.deps.Limits.Parallel)
	for i := first; i < end; i++ {
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

// start announces a call, reports whether it may run.
func (t *toolTurn) start(i int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return false
	}
	t.calls[i].started = true
	t.err = t.run.emit(ToolStarted{Step: t.step, Call: t.calls[i].call})
	return t.err == nil
}

// one runs a call and passes on its result.
func (t *toolTurn) one(ctx context.Context, i int) {
	began := time.Now()
	c := t.calls[i].call
	out, asked, err := t.run.tool(ctx, t.step, c)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		known := out
		out = t.run.brokenOff(c, err, time.Since(began), asked)
		if out.CageOver = known.CageOver; len(known.Audit) > 0 {
			out.Audit = known.Audit
		}
	}
	if out.CageOver && t.run.cage != nil {
		t.run.cage.over.Store(true)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls[i].outcome = &out
	t.release()
}

// release sends the results that are next in order. The caller holds mu.
func (t *toolTurn) release() {
	for t.err == nil && t.released < len(t.calls) && t.calls[t.released].outcome != nil {
		c := &t.calls[t.released]
		t.released++
		t.err = t.run.emit(ToolFinished{
			Step: t.step, Input: c.call.Input, Result: result(c), Err: c.outcome.Err,
			Audit: c.outcome.Audit, Duration: c.outcome.Duration,
		})
	}
}

func result(c *toolCall) llm.ToolResult {
	return llm.ToolResult{CallID: c.call.ID, Name: c.call.Name, Content: c.outcome.Content, IsError: c.outcome.Err != nil}
}

// finish gives the calls that never ran a result, sends what was not sent yet, and returns all results.
func (t *toolTurn) finish(cause error) ([]llm.Block, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	results := make([]llm.Block, len(t.calls))
	for i := range t.calls {
		c := &t.calls[i]
		if c.outcome == nil {
			if !c.started && t.err == nil {
				t.err = t.run.emit(ToolStarted{Step: t.step, Call: c.call})
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

// tool runs one call at the tool runner, and asks an operator where that is needed; asked says whether it did. A panic on
// the way is an error like any other.
func (r *run) tool(ctx context.Context, step int, c llm.ToolCall) (out ToolOutcome, asked bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			r.deps.Log.ErrorContext(ctx, "tool call panicked", "run_id", r.start.RunID, "tool", c.Name, "panic", p, "stack", string(debug.Stack()))
			err = fault.New(fault.Internal, "Something went wrong inside kaged; the log has the cause.")
		}
	}()
	req := ToolRequest{CallID: fmt.Sprintf("%s.%d.%s", r.start.RunID, step, c.ID), Tool: c.Name, Input: c.Input, Context: r.toolContext}
	out, asked, err = r.approved(ctx, step, c, req, func(stream, text string) {
		// A sink that is gone ends ctx, and with it the call.
		_ = r.emit(ToolOutput{CallID: c.ID, Stream: stream, Text: text})
	})
	out.Content = valid(out.Content)
	return out, asked, err
}

// brokenOff is the outcome of a call whose result never came; asked says whether it was recorded when it was asked about.
func (r *run) brokenOff(c llm.ToolCall, err error, took time.Duration, asked bool) ToolOutcome {
	f := fault.From(err)
	switch f.Code {
	case fault.Cancelled:
		f = fault.Wrap(err, fault.Cancelled, "The call was cancelled while it ran. It may have had effects.")
	case fault.Interrupted:
		f = fault.Wrap(err, fault.Interrupted, "%s The call may have had effects: look before you call it again.", f.Msg)
	case fault.Unavailable:
		f = fault.Wrap(err, fault.Unavailable, "%s It is not known whether the call had effects: look before you call it again.", f.Msg)
	}
	out := r.failedCall(c, f, took)
	if asked {
		out.Audit = out.Audit[1:]
	}
	return out
}

// neverRan is the outcome of a call that the end of the run kept from running.
func (r *run) neverRan(c llm.ToolCall, cause error) ToolOutcome {
	code := fault.Cancelled
	if fault.CodeOf(cause) == fault.Interrupted {
		code = fault.Interrupted
	}
	return r.failedCall(c, fault.New(code, "The call was not made: the run ended before it."), 0)
}

// failedCall is the outcome of a call that the tool runner gave none for. The tool runner's records of it are lost, so
// the loop makes them.
func (r *run) failedCall(c llm.ToolCall, f *fault.Error, took time.Duration) ToolOutcome {
	now := time.Now()
	record := func(event string, payload map[string]any) Record {
		payload["tool_name"], payload["request_id"] = r.canonicalName(c.Name), r.start.RequestID
		payload["caller"], payload["session_id"], payload["run_id"] = r.agent.Path, r.start.SessionID, r.start.RunID
		return Record{Type: event, At: now, AgentPath: r.agent.Path, Payload: payload}
	}
	return ToolOutcome{Content: failureText(f), Err: f, Duration: took, Audit: []Record{
		record("tool.called", map[string]any{"params": redact.Params([]byte(c.Input), redact.ValueBytes)}),
		record("tool.completed", map[string]any{"success": false, "error_code": f.Code.String(), "duration_ms": took.Milliseconds()}),
	}}
}

// rpcFailed is the JSON-RPC number of a tool error that has none of its own.
const rpcFailed = -32000

// failureText renders a failure as a model is shown it, in the form the tool runner uses.
func failureText(f *fault.Error) string {
	body := struct {
		Code    string         `json:"code"`
		Message string         `json:"message"`
		Hint    string         `json:"hint,omitempty"`
		Details map[string]any `json:"details"`
		RPCCode int32          `json:"rpc_code"`
	}{f.Code.String(), f.Msg, f.Code.Hint(), map[string]any{}, f.Code.Spec().GetRpc()}
	if body.RPCCode == 0 {
		body.RPCCode = rpcFailed
	}
	return string(canonical(map[string]any{"error": body}))
}
