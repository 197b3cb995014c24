package loop

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/compile"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/llm"
)

// A child is a tool of its parent. It gets only the prompt, and works with its own tools in steps that are stored
// like the root's. Its parent reads its text, cost and changed files (H-SUP-TOOL-01, H-SUP-TOOL-03, H-SUP-HYG-01).
func TestDelegation(t *testing.T) {
	t.Parallel()
	f := newFamily(t, wants(asks("c1", "scout", "Look.")), says("Done."))
	f.child(f.start.Agent, "scout", wants(call("x", "file.read", "{}"), call("x", "file.write", "{}")), says("Found it."))
	wrote := contract.Record{Type: contract.FileWritten, Payload: map[string]any{"path": "a.go"}}
	f.tools.records = map[string]contract.Record{"file.write": wrote}
	if fin := f.run(t.Context()); fin.Outcome != contract.Completed || fin.Usage.Input != 20 {
		t.Fatalf("%+v", fin)
	}
	got := f.answers()["c1"]
	if got.failed || got.Outcome != "completed" || got.Text != "Found it." || got.Steps != 2 {
		t.Errorf("the parent reads %+v", got)
	}
	if got.Tokens != 34 || *got.CostUSD != 30 {
		t.Errorf("the parent reads %+v", got)
	}
	if d := cmp.Diff([]string{"a.go"}, got.FilesChanged); d != "" {
		t.Error(d)
	}
	scout := f.models["scout"].requests
	said := scout[0].Messages
	if len(said) != 1 || said[0].Blocks[0].Text.Text != "Look." || scout[0].System[0] != "You are scout." {
		t.Errorf("the child is given %+v", scout[0])
	}
	for _, tool := range scout[0].Tools {
		if strings.HasPrefix(tool.Name, "agent-") {
			t.Errorf("the child is offered %s", tool.Name)
		}
	}
	last := f.model.requests[0].Tools[len(f.model.requests[0].Tools)-1]
	if last.Name != "agent-scout" || last.Description != "It is scout." {
		t.Errorf("the parent is offered %+v", last)
	}
	for _, r := range results(scout[1]) {
		if id, ours := strings.CutPrefix(r.CallID, "call_"); !ours || !ident.Valid(id) {
			t.Errorf("a call of the child is called %s", r.CallID)
		}
	}
	ids := callIDs(results(scout[1]))
	want := []string{
		"start scout:m", "turn", "call " + ids[0], "result " + ids[0], "turn stored?", "call " + ids[1],
		"result " + ids[1], "done", "results stored?", "delta Found it.", "turn",
	}
	if d := cmp.Diff(want, f.sink.told(got.InvocationID)); d != "" {
		t.Error(d)
	}
	want = []string{
		"start fake:m1", "turn", "call c1", "result c1", "done", "results stored?", "delta Done.", "turn",
	}
	if d := cmp.Diff(want, f.sink.told("")); d != "" {
		t.Error(d)
	}
	if c := f.tools.seen[0].Context; c.InvocationID != got.InvocationID || c.Agent != "primary.subagents.scout" {
		t.Errorf("the child's tools were called by %+v", c)
	}
}

// Each invocation has records of its start and end with its place in the tree, and its own record of requests. The
// root's record of requests continues (H-SUP-HOOK-01, H-SUP-HOOK-02, H-SUP-HOOK-04, H-TEST-SUP-01).
func TestTheRecordOfATree(t *testing.T) {
	t.Parallel()
	f := newFamily(t, wants(asks("c1", "a", "Go.")), says("Done."))
	a := f.child(f.start.Agent, "a", wants(asks("c1", "b", "Go on.")), says("a"))
	f.child(a, "b", says("b"))
	if fin := f.run(t.Context()); fin.Outcome != contract.Completed {
		t.Fatalf("%+v", fin)
	}
	var got []string
	for _, e := range f.sink.events {
		switch e := e.(type) {
		case contract.AgentStarted:
			got = append(got, e.Audit.Type+" "+e.Audit.Agent)
		case contract.AgentEnded:
			got = append(got, e.Audit.Type+" "+e.Audit.Agent)
		}
	}
	path := "primary.subagents.a"
	want := []string{
		"delegation.started " + path, "delegation.started " + path + ".subagents.b",
		"delegation.completed " + path + ".subagents.b", "delegation.completed " + path,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	started, ended := of[contract.AgentStarted](f.sink), of[contract.AgentEnded](f.sink)
	if started[0].ParentID != "" || started[1].ParentID == "" {
		t.Errorf("%+v", started)
	}
	if started[1].Prompt != "Go on." || started[1].Cage != contract.Uncaged {
		t.Errorf("%+v", started[1])
	}
	if d := cmp.Diff([]string{"file.read", "file.write", "agent-b"}, started[0].Tools); d != "" {
		t.Error(d)
	}
	if ended[0].Usage.Input != 10 || ended[1].Usage.Input != 20 || f.answers()["c1"].Tokens != 3*17 {
		t.Errorf("%+v, and the root reads %d tokens", ended, f.answers()["c1"].Tokens)
	}
	if n := len(of[contract.AuditMoved](f.sink)); n != 2 {
		t.Errorf("the record of the session's requests moved %d times, want 2", n)
	}
	bases := map[string]any{}
	for _, r := range of[contract.Record](f.sink) {
		if r.Type == preGeneration {
			bases[r.Agent] = r.Payload["base_hash"]
		}
	}
	if len(bases) != 3 || bases[path] != nil {
		t.Errorf("the records of requests continue %v", bases)
	}
}

// A call without a valid prompt starts no invocation.
func TestPrompts(t *testing.T) {
	t.Parallel()
	large := `{"prompt":"` + strings.Repeat("x", contract.MaxPrompt+1) + `"}`
	bad := []string{`{}`, `{"prompt":""}`, `{"prompt":3}`, `no`, large}
	var calls []llm.ToolCall
	for i, input := range bad {
		calls = append(calls, call(fmt.Sprint("c", i), "agent-a", input))
	}
	f := newFamily(t, wants(calls...), says("Done."))
	f.child(f.start.Agent, "a")
	if fin := f.run(t.Context()); fin.Outcome != contract.Completed {
		t.Fatalf("%+v", fin)
	}
	for id, got := range f.answers() {
		if got.Error.Code != "invalid_params" || got.InvocationID != "" {
			t.Errorf("%s: the parent reads %+v", id, got)
		}
	}
	if n := len(of[contract.AgentStarted](f.sink)); n != 0 {
		t.Errorf("%d invocations have begun", n)
	}
}

// A child that fails is a result for its parent, which continues: after an error of the provider, a panic, or a
// failed start (H-SUP-ERR-01).
func TestAChildThatFails(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		spoil      func(f *family, a *compile.Agent)
		answer     play
		code, text string
	}{
		"its provider refuses": {
			answer: fails(fault.New(fault.ProviderRejected, "No.")),
			code:   "provider_rejected", text: "Agent generation failed: No.",
		},
		"a defect": {
			answer: func(context.Context, func(llm.Event) bool) error { panic("oh") },
			code:   "internal", text: "Something went wrong inside kaged; the log has the cause.",
		},
		"its cage": {
			spoil: func(_ *family, a *compile.Agent) { a.Cage = &dsl.Cage{} },
			code:  "cage_unavailable", text: "Sub-agent a could not be started: There are no cages here.",
		},
		"its prompt file": {
			spoil: func(f *family, _ *compile.Agent) { delete(f.start.Prompts, "a.md") },
			code:  "prompt_not_found", text: "Sub-agent a could not be started: Prompt file not found: ./a.md.",
		},
		"its alias": {
			spoil: func(f *family, _ *compile.Agent) { delete(f.start.Routes, "a") },
			code:  "model_alias_not_found", text: "Model alias 'a' not found in local config.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFamily(t, wants(asks("c1", "a", "Go.")), says("Done."))
			a := f.child(f.start.Agent, "a", tt.answer)
			if tt.spoil != nil {
				tt.spoil(f, a)
			}
			if fin := f.run(t.Context()); fin.Outcome != contract.Completed {
				t.Fatalf("%+v", fin)
			}
			got := f.answers()["c1"]
			if !got.failed || got.Outcome != "failed" || got.Error.Code != tt.code || got.Error.Message != tt.text {
				t.Errorf("the parent reads %+v", got)
			}
			ended := of[contract.AgentEnded](f.sink)
			if len(of[contract.AgentStarted](f.sink)) != 1 || len(ended) != 1 || ended[0].Err.Code.String() != tt.code {
				t.Errorf("%+v", ended)
			}
			if tt.answer == nil && f.models["a"].calls() != 0 {
				t.Error("its model was asked")
			}
		})
	}
}

// stuck answers with the beginning of a text and then hangs.
func stuck(text string, begun chan<- struct{}) play {
	return func(ctx context.Context, yield func(llm.Event) bool) error {
		_ = yield(llm.Event{Accepted: &llm.Accepted{}}) && yield(llm.Event{TextDelta: text})
		begun <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}
}

// A cancelled invocation ends with those below it and is a result for its parent. The parent and the siblings
// continue.
func TestAnInvocationIsCancelled(t *testing.T) {
	t.Parallel()
	f := newFamily(t, wants(asks("c1", "a", "Go."), asks("c2", "c", "Go.")), says("Done."))
	begun, cancelled := make(chan struct{}), make(chan struct{})
	a := f.child(f.start.Agent, "a", wants(asks("c1", "b", "Go.")))
	f.child(a, "b", stuck("So far.", begun))
	f.child(f.start.Agent, "c", func(ctx context.Context, yield func(llm.Event) bool) error {
		<-cancelled
		return says("Well.")(ctx, yield)
	})
	run := New(f.deps, f.start, f.sink)
	f.sink.onEmit = func(e contract.Event) error {
		if ended, ok := e.(contract.AgentEnded); ok && ended.Audit.Agent == a.Path {
			close(cancelled)
		}
		return nil
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		<-begun
		run.Cancel("nobody", "")
		for i, e := range of[contract.AgentStarted](f.sink) {
			if e.Audit.Agent == a.Path {
				run.Cancel(e.Audit.Payload["invocation_id"].(string), fmt.Sprint(i))
			}
		}
	})
	fin := run.Run(t.Context())
	wg.Wait()
	if fin.Outcome != contract.Completed {
		t.Fatalf("%+v", fin)
	}
	if got := f.answers(); got["c1"].Outcome != "cancelled" || !got["c1"].failed || got["c2"].Text != "Well." {
		t.Errorf("the parent reads %+v", got)
	}
	ended := of[contract.AgentEnded](f.sink)
	if len(ended) != 3 || ended[0].Audit.Agent != a.Path+".subagents.b" || ended[0].Outcome != contract.Cancelled {
		t.Fatalf("%+v", ended)
	}
	if ended[0].Text != "So far." {
		t.Errorf("%+v", ended)
	}
}

// The end of a run ends the children first, and their partial output is kept (H-CANCEL-02).
func TestARunIsCancelledWithItsChildren(t *testing.T) {
	t.Parallel()
	f := newFamily(t, wants(asks("c1", "a", "Go.")))
	begun := make(chan struct{})
	f.child(f.start.Agent, "a", stuck("So far.", begun))
	ctx, cancel := context.WithCancelCause(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		<-begun
		cancel(fault.New(fault.Cancelled, "The run was cancelled."))
	})
	fin := f.run(ctx)
	wg.Wait()
	if fin.Outcome != contract.Cancelled || fin.Steps != 1 {
		t.Errorf("%+v", fin)
	}
	ended := of[contract.AgentEnded](f.sink)
	if len(ended) != 1 || ended[0].Outcome != contract.Cancelled || ended[0].Text != "So far." {
		t.Errorf("%+v", ended)
	}
	results := of[contract.ToolFinished](f.sink)
	if len(results) != 1 || results[0].Err.Code != fault.Cancelled || len(of[contract.StepDone](f.sink)) != 1 {
		t.Errorf("%+v", results)
	}
}

// When the service stops, every invocation stops at its own step boundary and stays open: no agent ends, no further
// agent starts, and the root's call has no result.
func TestATreeComesToItsBoundaries(t *testing.T) {
	t.Parallel()
	f := newFamily(t, wants(asks("c1", "a", "Go."), asks("c2", "a", "Go.")))
	stopping := make(chan struct{})
	f.deps.Stopping, f.deps.Limits.Agents = stopping, 1
	f.child(f.start.Agent, "a", func(ctx context.Context, yield func(llm.Event) bool) error {
		close(stopping)
		return wants(call("x", "file.write", "{}"))(ctx, yield)
	})
	fin := f.run(t.Context())
	if fin.Outcome != contract.HandedOver || fin.Err != nil || fin.Steps != 1 {
		t.Errorf("%+v", fin)
	}
	if ended := of[contract.AgentEnded](f.sink); len(ended) != 0 || len(of[contract.AgentStarted](f.sink)) != 1 {
		t.Errorf("%+v", ended)
	}
	if len(f.tools.seen) != 1 {
		t.Error("the tools of the turn under way were not run")
	}
	story := f.sink.told("")
	if last := story[len(story)-1]; last != "call c1" {
		t.Errorf("the root's story ends with %s", last)
	}
	if d := cmp.Diff([]string{"run1"}, f.tools.kept); d != "" {
		t.Error(d)
	}
}

// Of the children that a turn calls, only a limited number work at once, and the model reads which calls were not
// made.
func TestAThousandChildren(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const most, side = 20, 4
		var calls []llm.ToolCall
		for i := range 1000 {
			calls = append(calls, asks(fmt.Sprint("c", i), "a", "Go."))
		}
		f := newFamily(t, wants(calls...), says("Done."))
		f.deps.Limits.TurnAgents, f.deps.Limits.Agents = most, side
		var mu sync.Mutex
		live, peak := 0, 0
		work := func(ctx context.Context, yield func(llm.Event) bool) error {
			mu.Lock()
			live++
			peak = max(peak, live)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			live--
			mu.Unlock()
			return says("ok")(ctx, yield)
		}
		var plays []play
		for range most {
			plays = append(plays, work)
		}
		f.child(f.start.Agent, "a", plays...)
		if fin := f.run(t.Context()); fin.Outcome != contract.Completed {
			t.Fatalf("%+v", fin)
		}
		made, told := 0, 0
		for _, a := range f.answers() {
			switch {
			case a.Outcome == "completed":
				made++
			case a.Error.Code == "budget_exceeded":
				told++
			}
		}
		if made != most || told != 1000-most || peak > side {
			t.Errorf("%d were made, %d told, %d at once", made, told, peak)
		}
	})
}

// A run has a limited number of working agents. A call over the limit waits for the other calls of its turn. If there
// are none it is refused, so that no two calls wait for each other.
func TestLiveAgents(t *testing.T) {
	t.Parallel()
	f := newFamily(t, wants(asks("c1", "a", "Go."), asks("c2", "a", "Go.")), says("Done."))
	f.start.LiveAgents = 2
	below := wants(asks("c1", "b", "Go."))
	a := f.child(f.start.Agent, "a", below, says("one"), below, says("two"))
	f.child(a, "b")
	if fin := f.run(t.Context()); fin.Outcome != contract.Completed {
		t.Fatalf("%+v", fin)
	}
	if got := f.answers(); got["c1"].Text != "one" || got["c2"].Text != "two" {
		t.Errorf("the parent reads %+v", got)
	}
	for _, i := range []int{1, 3} {
		if r := results(f.models["a"].requests[i])[0]; !strings.Contains(r.Content, "budget_exceeded") {
			t.Errorf("the child reads %s", r.Content)
		}
	}
}

// A session's choice of a model and of steps applies only to the root agent.
func TestOverridesAreTheRoots(t *testing.T) {
	t.Parallel()
	f := newFamily(t, wants(asks("c1", "a", "Go.")))
	f.child(f.start.Agent, "a", wants(call("x", "file.read", "{}")), says("ok"))
	f.start.Agent.Model, f.start.MaxSteps = "a", 1
	f.start.Routes[contract.RootRoute] = routeTo("fake:m1")
	if fin := f.run(t.Context()); fin.Outcome != contract.Completed || fin.ClosingText == "" {
		t.Errorf("%+v", fin)
	}
	if f.model.calls() != 1 || f.models["a"].calls() != 2 {
		t.Errorf("%d and %d calls", f.model.calls(), f.models["a"].calls())
	}
}

// A child is in its own cage before its tools run, and the cage's events belong to the child's invocation. If the
// cage ends first, the child fails and its parent continues (H-SUP-CAGE-01).
func TestTheCageOfAChild(t *testing.T) {
	t.Parallel()
	f := newFamily(t, wants(asks("c1", "a", "Go.")), says("Done."))
	a := f.child(f.start.Agent, "a", wants(call("x", "file.read", "{}")))
	a.Cage = &dsl.Cage{Limits: dsl.Limits{Disk: 7}}
	made := &box{opened: contract.Cage{ID: "cage1", Tier: "userns"}, happen: make(chan happening)}
	f.tools.hold = func(ctx context.Context, _ string, caller *contract.Caller) (Cage, error) {
		made.life, made.caller = ctx, *caller
		return made, nil
	}
	f.tools.run["file.read"] = func(ctx context.Context, _ string) (string, error) {
		made.happen <- tried(contract.Attempt{Target: "a.example:443", Rule: "No rule allows it."})
		made.happen <- over("disk")
		<-ctx.Done()
		return "", ctx.Err()
	}
	if fin := f.run(t.Context()); fin.Outcome != contract.Completed {
		t.Fatalf("%+v", fin)
	}
	got := f.answers()["c1"]
	if got.Outcome != "failed" || got.Error.Code != "cage_limit_reached" {
		t.Errorf("the parent reads %+v", got)
	}
	if made.caller.InvocationID != got.InvocationID || made.caller.Agent != a.Path || made.life.Err() == nil {
		t.Errorf("the cage was asked for by %+v", made.caller)
	}
	for i, e := range f.sink.events {
		switch e.(type) {
		case contract.CageChanged, contract.NetworkTried:
			if f.sink.whose[i] != got.InvocationID {
				t.Errorf("%T is of the invocation %q", e, f.sink.whose[i])
			}
		}
	}
	if started := of[contract.AgentStarted](f.sink)[0]; started.Cage != contract.CagePending {
		t.Errorf("it begins %s", started.Cage)
	}
	if len(of[contract.CageChanged](f.sink)) != 2 || len(of[contract.NetworkTried](f.sink)) != 1 {
		t.Errorf("%v", recorded(aboutCages(f.sink)))
	}
}

// An operator is asked about a child's call as about any other, and the question names the child.
func TestAChildAsks(t *testing.T) {
	t.Parallel()
	f := newFamily(t, wants(asks("c1", "a", "Go.")), says("Done."))
	a := f.child(f.start.Agent, "a", wants(call("x", "file.write", "{}")), says("Wrote it."))
	f.deps.Tools = questions{f.tools}
	f.sink.answer = func(context.Context, contract.ApprovalRequested) (contract.Decision, error) {
		return contract.Decision{Verdict: contract.Denied}, nil
	}
	if fin := f.run(t.Context()); fin.Outcome != contract.Completed {
		t.Fatalf("%+v", fin)
	}
	for i, e := range f.sink.events {
		q, ok := e.(contract.ApprovalRequested)
		if ok && (f.sink.whose[i] != f.answers()["c1"].InvocationID || q.Subject.Agent != a.Path) {
			t.Errorf("%+v is of the invocation %q", q, f.sink.whose[i])
		}
	}
	if n := len(of[contract.ApprovalRequested](f.sink)); n != 1 {
		t.Errorf("%d questions were asked", n)
	}
	if r := results(f.models["a"].requests[1])[0]; !strings.Contains(r.Content, "approval_denied") {
		t.Errorf("the child reads %s", r.Content)
	}
}

// questions is a tool runner that asks about every call.
type questions struct{ *tools }

func (q questions) Run(_ context.Context, req ToolRequest, _ func(stream, text string)) (ToolOutcome, error) {
	subject := contract.Subject{Tool: req.Tool, Agent: req.Context.Agent}
	return ToolOutcome{
		Question: &contract.Question{Subject: subject, Fingerprint: subject.Fingerprint()},
		Audit:    []contract.Record{{Type: "tool.approval.requested"}},
	}, nil
}
