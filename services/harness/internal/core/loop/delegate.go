package loop

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/compile"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/llm"
)

// agentSchema describes the parameters of a call of a child.
var agentSchema = json.RawMessage(`{"type":"object","properties":{"prompt":{"type":"string","minLength":1,` +
	`"description":"The task. The agent sees nothing else of this conversation."}},` +
	`"required":["prompt"],"additionalProperties":false}`)

// informedSchema is agentSchema for a child that also gets the words of its caller and of the operator.
var informedSchema = json.RawMessage(`{"type":"object","properties":{"prompt":{"type":"string","minLength":1,` +
	`"description":"The task. The agent also sees what you and the operator have said, without tools."}},` +
	`"required":["prompt"],"additionalProperties":false}`)

// snippet is the most bytes of a prompt in an audit record.
const snippet = 256

// sums is the total use of several invocations.
type sums struct {
	usage    llm.Usage
	cost     llm.Cost
	unpriced bool
}

func (s *sums) add(o sums) {
	s.usage, s.cost, s.unpriced = s.usage.Add(o.usage), s.cost.Add(o.cost), s.unpriced || o.unpriced
}

// offerChildren offers the agent's direct children as tools.
func (v *invocation) offerChildren() {
	for _, child := range v.agent.Children {
		name := contract.AgentTool + child.Key
		description := cmp.Or(child.Description, "Calls the agent "+child.Key+".")
		schema := agentSchema
		if child.ParentContext {
			schema = informedSchema
		}
		v.tools = append(v.tools, llm.Tool{Name: name, Description: description, Schema: schema})
		v.offers[name] = offer{canonical: name, child: child}
	}
}

// delegate calls a child that was admitted, and returns the outcome of the call. It fails with errHandOver if the
// next harness continues the child.
func (v *invocation) delegate(ctx context.Context, c llm.ToolCall, child *compile.Agent) (ToolOutcome, error) {
	defer v.account.Depart()
	prompt, f := promptOf(c.Input)
	if f != nil {
		return v.failedCall(c, f, 0), nil
	}
	began := time.Now()
	w := &invocation{
		Tree: v.Tree, id: ident.New(), callID: c.ID, parent: v, agent: child,
		prompt: prompt, history: append(v.forwarded(child),
			llm.Message{Role: llm.RoleUser, Blocks: []llm.Block{{Text: &llm.Text{Text: prompt}}}}),
		continued: v.start.at(v.id, c.ID),
	}
	if w.continued != nil {
		w.id, w.told, w.history = w.continued.InvocationID, true, append(w.history, w.continued.Messages...)
	}
	w.open(v.account)
	fin := w.run(ctx)
	if fin.Outcome == contract.HandedOver {
		return ToolOutcome{}, errHandOver
	}
	if !w.told {
		return v.failedCall(c, cmp.Or(fin.Err, errStopping), time.Since(began)), nil
	}
	answer := w.answer(fin, time.Since(began))
	var records []contract.Record
	if fin.Outcome == contract.Completed {
		answer.Todos, records = w.propose(ctx, answer.Ended.Text)
	}
	answer.Ended.Audit = w.completed(answer, prompt)
	// A failing sink has ended ctx, and with it the caller.
	_ = w.emit(answer.Ended)
	v.mu.Lock()
	v.below.add(w.spent())
	v.mu.Unlock()
	v.changed(w.changes()...)
	return ToolOutcome{
		Content: answer.Content(), Gist: gist(answer), Err: failure(fin), Audit: records, Duration: time.Since(began),
	}, nil
}

// gist returns a child's answer without the parts that differ between equal calls.
func gist(a contract.Answer) string {
	return contract.Answer{Ended: contract.AgentEnded{
		Outcome: a.Ended.Outcome, Text: a.Ended.Text, FilesChanged: a.Ended.FilesChanged, Err: a.Ended.Err,
	}}.Content()
}

// promptOf returns the prompt of a call of a child.
func promptOf(input string) (string, *fault.Error) {
	var params struct {
		Prompt *string `json:"prompt"`
	}
	if err := json.Unmarshal([]byte(input), &params); err != nil || params.Prompt == nil {
		return "", fault.New(fault.InvalidParams, "The call needs one parameter: prompt, a text.").With("parameter", "prompt")
	}
	if n := len(*params.Prompt); n < 1 || n > contract.MaxPrompt {
		return "", fault.New(fault.InvalidParams, "prompt has %d bytes and must have from 1 to %d.", n, contract.MaxPrompt).
			With("parameter", "prompt")
	}
	return valid(*params.Prompt), nil
}

// notStarted returns the error of a child that could not begin (H-SUP-ERR-01).
func notStarted(a *compile.Agent, err error) error {
	f := fault.From(err)
	return fault.Wrap(err, f.Code, "Sub-agent %s could not be started: %s.", a.Key, strings.TrimRight(f.Msg, "."))
}

// failure returns the error of a child's call, nil for a completed one.
func failure(fin contract.Finished) *fault.Error {
	switch fin.Outcome {
	case contract.Completed:
		return nil
	case contract.Cancelled:
		return fault.New(fault.Cancelled, "The agent was cancelled.")
	}
	return fin.Err
}

// tell emits the start of the invocation.
func (v *invocation) tell() error {
	now := time.Now().UnixMilli()
	e := contract.AgentStarted{
		ParentID: v.parent.id, CallID: v.callID, Name: v.agent.Key, Prompt: v.prompt,
		Cage: contract.Uncaged, Tools: slices.Clone(v.toolContext.Tools), StartedAt: now,
	}
	if v.agent.Cage != nil && !v.start.NoSandbox {
		e.Cage = contract.CagePending
	}
	for _, child := range v.agent.Children {
		e.Tools = append(e.Tools, contract.AgentTool+child.Key)
	}
	e.Audit = v.delegation(contract.DelegationStarted, e.Prompt, map[string]any{"cage_status": string(e.Cage)})
	e.Audit.At = now
	v.told = true
	return v.emit(e)
}

// delegation returns an audit record about the invocation, in its agent's name and with its caller's path.
func (v *invocation) delegation(event, prompt string, payload map[string]any) contract.Record {
	payload["run_id"], payload["session_id"], payload["caller"] = v.start.RunID, v.start.SessionID, v.parent.agent.Path
	payload["request_id"], payload["invocation_id"], payload["subagent"] = v.start.RequestID, v.id, v.agent.Key
	payload["tool_call_id"], payload["prompt_bytes"] = v.callID, len(prompt)
	payload["prompt"] = valid(clip.Bytes(prompt, snippet))
	if v.parent.id != "" {
		payload["parent_invocation_id"] = v.parent.id
	}
	return contract.NewRecord(event, v.agent.Path, payload)
}

// completed returns the record of the invocation's end.
func (v *invocation) completed(a contract.Answer, prompt string) contract.Record {
	payload := map[string]any{
		"outcome": a.Ended.Outcome.Name(), "steps": a.Ended.Steps, "duration_ms": a.Ended.DurationMS, "cost_usd": nil,
		"tokens_in": a.Ended.Usage.TotalInput(), "tokens_out": a.Ended.Usage.Output,
		"files_changed": len(a.Ended.FilesChanged),
	}
	if a.Ended.Cost != nil {
		payload["cost_usd"] = a.Ended.Cost.Total
	}
	if a.Ended.Err != nil {
		payload["error_code"] = a.Ended.Err.Code.String()
	}
	return v.delegation(contract.DelegationCompleted, prompt, payload)
}

// answer returns the invocation's result for its parent.
func (v *invocation) answer(fin contract.Finished, took time.Duration) contract.Answer {
	text := cmp.Or(textOf(fin.Partial), v.said)
	if fin.ClosingText != "" {
		text = strings.TrimLeft(text+"\n\n"+fin.ClosingText, "\n")
	}
	e := contract.AgentEnded{
		Outcome: fin.Outcome, Steps: fin.Steps, Usage: fin.Usage, DurationMS: took.Milliseconds(),
		FilesChanged: v.changes(), EndedAt: time.Now().UnixMilli(),
	}
	if fin.Outcome == contract.Failed {
		e.Err = fin.Err
	}
	e.Text, e.Truncated = contract.ClipAgentText(valid(text))
	own, all := v.own(), v.spent()
	if !own.unpriced {
		e.Cost = &own.cost
	}
	a := contract.Answer{InvocationID: v.id, Ended: e, Usage: all.usage}
	if !all.unpriced {
		a.Cost = &all.cost
	}
	return a
}

// own returns the use of the invocation's own turns.
func (v *invocation) own() sums {
	s := sums{usage: v.fin.Usage, unpriced: v.unpriced}
	if v.fin.Stats != nil && v.fin.Stats.Cost != nil {
		s.cost = *v.fin.Stats.Cost
	}
	return s
}

// spent returns the use of the invocation and of those below it.
func (v *invocation) spent() sums {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.own()
	s.add(v.below)
	return s
}

// changed adds changed files, up to [contract.MaxFilesChanged].
func (v *invocation) changed(paths ...string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, p := range paths {
		if v.files == nil {
			v.files = map[string]struct{}{}
		}
		if len(v.files) < contract.MaxFilesChanged {
			v.files[p] = struct{}{}
		}
	}
}

// changes returns the files that the invocation and those below it changed, sorted.
func (v *invocation) changes() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Sorted(maps.Keys(v.files))
}

// agents runs the calls of children from first to before end, as many at once as the limits allow, and returns when
// all have ended.
func (t *toolTurn) agents(ctx context.Context, first, end int) {
	var wg sync.WaitGroup
	defer wg.Wait()
	over, running := make(chan struct{}, end-first), 0
	for i := first; i < end; i++ {
		if t.calls[i].outcome != nil {
			continue
		}
		admitted := false
		var crowded *fault.Error
		for t.fits(i) && ctx.Err() == nil {
			wait := true
			if running < t.run.deps.Limits.Agents {
				crowded, wait = t.run.account.Admit()
				admitted = crowded == nil
			}
			if admitted || running == 0 || !wait {
				break
			}
			select {
			case <-over:
				running--
			case <-ctx.Done():
			}
		}
		if !admitted && t.run.stopping() && ctx.Err() == nil {
			t.leave()
			return
		}
		if ctx.Err() != nil || !t.start(i) {
			if admitted {
				t.run.account.Depart()
			}
			return
		}
		if !admitted {
			t.refuse(i, crowded)
			continue
		}
		running++
		wg.Go(func() {
			defer func() { over <- struct{}{} }()
			t.one(ctx, i)
		})
	}
}

// fits reports whether a child's call is within the turn's limit of calls and the run is not stopping.
func (t *toolTurn) fits(i int) bool {
	return t.calls[i].nth < t.run.deps.Limits.TurnAgents && !t.run.stopping()
}

// refuse settles a call of a child that was not admitted. f is the reason unless the turn has too many calls of
// children.
func (t *toolTurn) refuse(i int, f *fault.Error) {
	c, limits := t.calls[i], t.run.deps.Limits
	if c.nth >= limits.TurnAgents {
		f = fault.New(fault.BudgetExceeded, "One turn may call %d agents; this is call %d. Call the others later. "+
			"The limit is turn_agents of [services.harness] in the configuration.", limits.TurnAgents, c.nth+1).
			With("resource", "turn_agents").With("limit", limits.TurnAgents)
	}
	t.settle(i, t.run.failedCall(c.call, f, 0))
}
