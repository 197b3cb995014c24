package loop

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/llm"
)

// handed returns the unfinished invocations of a handed over run, built from its events as session-manager builds
// them.
func handed(s *sink) []contract.Continued {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*contract.Continued
	at := map[string]*contract.Continued{}
	begin := func(c *contract.Continued) {
		list, at[c.InvocationID] = append(list, c), c
	}
	begin(&contract.Continued{})
	results := map[string][]llm.Block{}
	for i, event := range s.events {
		id := s.whose[i]
		c := at[id]
		switch e := event.(type) {
		case contract.AgentStarted:
			begin(&contract.Continued{InvocationID: id, ParentID: e.ParentID, CallID: e.CallID})
		case contract.CallWanted:
			c.Calls = e.Call
		case contract.TurnDone:
			c.Open, c.Usage, results[id] = &e.Turn, c.Usage.Add(e.Usage), nil
			c.Spent = append(c.Spent, contract.SpentBefore{
				Agent: "primary", Amount: contract.Amount{Tokens: e.Usage.TotalInput() + e.Usage.Output, Calls: 1},
			})
		case contract.ToolFinished:
			c.Results = append(c.Results, e.Result)
			results[id] = append(results[id], llm.Block{Result: &e.Result})
		case contract.ApprovalRequested:
			c.Asked = append(c.Asked, contract.AskedCall{CallID: e.CallID, ApprovalID: e.ID})
		case contract.StepDone:
			c.Messages = append(c.Messages, llm.Message{Role: llm.RoleAssistant, Blocks: c.Open.Blocks},
				llm.Message{Role: llm.RoleTool, Blocks: results[id]})
			c.Steps, c.Open, c.Results, c.Asked = e.Step, nil, nil, nil
		}
	}
	out := make([]contract.Continued, len(list))
	for i, c := range list {
		out[i] = *c
	}
	return out
}

// next returns the bench of the harness that continues the run.
func (b *bench) next(answers ...play) *bench {
	n := newBench(b.t, answers...)
	n.start = b.start
	n.start.Continued = handed(b.sink)
	root := &n.start.Continued[0]
	n.start.History = append(append([]llm.Message{}, b.start.History...), root.Messages...)
	root.Messages = nil
	return n
}

// A run that was handed over between two steps sends the next request with everything before it, continues the
// numbers of its steps and calls, and does not report its start again.
func TestGoesOnBetweenSteps(t *testing.T) {
	t.Parallel()
	b := newBench(t, wants(call("c1", "file.write", "{}")))
	stopping := make(chan struct{})
	b.deps.Stopping = stopping
	b.tools.run["file.write"] = func(context.Context, string) (string, error) {
		close(stopping)
		return "written", nil
	}
	if fin := b.run(t.Context()); fin.Outcome != contract.HandedOver {
		t.Fatalf("%+v", fin)
	}
	n := b.next(says("Done."))
	fin := n.run(t.Context())
	if fin.Outcome != contract.Completed || fin.Steps != 2 || fin.Usage.Output != 10 {
		t.Errorf("%+v", fin)
	}
	if got := results(n.model.requests[0]); len(got) != 1 || got[0].Content != "written" || len(n.tools.seen) != 0 {
		t.Errorf("the model reads %+v", got)
	}
	if d := cmp.Diff([]string{"delta Done.", "turn"}, n.sink.story()); d != "" {
		t.Error(d)
	}
	if calls := of[contract.CallWanted](n.sink); len(calls) != 1 || calls[0].Call != 2 {
		t.Errorf("%+v", calls)
	}
}

// A run that was handed over while an operator was asked repeats the question under the same id. It repeats no call
// that has a result, and announces no call twice.
func TestGoesOnWithAQuestion(t *testing.T) {
	t.Parallel()
	b := newBench(t, wants(call("c1", "file.write", "{}"), call("c2", "shell.bash", `{"command":"x"}`),
		call("c3", "file.write", "{}")))
	stopping := make(chan struct{})
	g := &guarded{tools: b.tools}
	b.deps.Tools, b.deps.Stopping = g, stopping
	b.sink.onEmit = func(e contract.Event) error {
		if _, ok := e.(contract.ApprovalRequested); ok {
			close(stopping)
		}
		return nil
	}
	if fin := b.run(t.Context()); fin.Outcome != contract.HandedOver {
		t.Fatalf("%+v", fin)
	}
	asked := of[contract.ApprovalRequested](b.sink)
	n := b.next(says("Done."))
	g = &guarded{tools: n.tools}
	n.deps.Tools = g
	n.sink.answer = func(context.Context, contract.ApprovalRequested) (contract.Decision, error) {
		return contract.Decision{Verdict: contract.Approved}, nil
	}
	if fin := n.run(t.Context()); fin.Outcome != contract.Completed || fin.Steps != 2 {
		t.Errorf("%+v", fin)
	}
	again := of[contract.ApprovalRequested](n.sink)
	if len(again) != 1 || again[0].ID != asked[0].ID || len(g.grants) != 2 {
		t.Errorf("asked %+v, then %+v; grants %q", asked, again, g.grants)
	}
	want := []string{"result c2", "call c3", "result c3", "done", "results stored?", "delta Done.", "turn"}
	if d := cmp.Diff(want, n.sink.story()); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"c1", "c2", "c3"}, callIDs(results(n.model.requests[0]))); d != "" {
		t.Error(d)
	}
}

// A child continues under its id and with its step numbers, and its earlier use counts against its budget.
func TestAnAgentGoesOn(t *testing.T) {
	t.Parallel()
	f := newFamily(t, wants(asks("c1", "a", "Go.")))
	stopping := make(chan struct{})
	f.deps.Stopping = stopping
	child := f.child(f.start.Agent, "a", wants(call("x", "file.write", "{}")))
	f.tools.run["file.write"] = func(context.Context, string) (string, error) {
		close(stopping)
		return "written", nil
	}
	if fin := f.run(t.Context()); fin.Outcome != contract.HandedOver {
		t.Fatalf("%+v", fin)
	}
	began := of[contract.AgentStarted](f.sink)
	child.Budget = &dsl.Budget{Calls: 2}
	n := &family{bench: f.next(says("Done.")), models: map[string]*model{}}
	n.deps.Models = openers{n}
	n.models["a"] = &model{t: t, answers: []play{wants(call("y", "file.read", "{}")), says("More.")}}
	if fin := n.run(t.Context()); fin.Outcome != contract.Completed {
		t.Errorf("%+v", fin)
	}
	if len(began) != 1 || len(of[contract.AgentStarted](n.sink)) != 0 {
		t.Errorf("began %+v and again %+v", began, of[contract.AgentStarted](n.sink))
	}
	if first := results(n.models["a"].requests[0]); len(first) != 1 || first[0].Content != "written" {
		t.Errorf("the child reads %+v", first)
	}
	ended := of[contract.AgentEnded](n.sink)
	if len(ended) != 1 || ended[0].Steps != 2 || ended[0].Err == nil || ended[0].Err.Code.String() != "budget_exceeded" {
		t.Errorf("%+v", ended)
	}
}
