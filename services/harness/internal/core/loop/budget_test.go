package loop

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/compile"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
)

// worker adds a child with a budget that calls a tool and then answers.
func (f *family) worker(key string, b *dsl.Budget) *compile.Agent {
	a := f.child(f.start.Agent, key, wants(call("x", "file.read", "{}")), says("Found it."))
	a.Budget = b
	return a
}

// A run with a used-up budget fails with a refusal that names the budget, its amount, and the agents that spent it.
// The refusal is recorded, and the budget's state is shown.
func TestARunOutOfBudget(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		budget   dsl.Budget
		resource string
	}{
		"calls":  {dsl.Budget{Calls: 1}, "calls"},
		"tokens": {dsl.Budget{Tokens: 200 + boundedOutput}, "tokens"},
		"usd":    {dsl.Budget{NanoUSD: (200 + boundedOutput) * dsl.NanoUSD}, "usd"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFamily(t, wants(call("c1", "file.read", `{"path":"`+strings.Repeat("x", 600)+`"}`)))
			f.start.Agent.Budget = &tt.budget
			fin := f.run(t.Context())
			if fin.Outcome != contract.Failed || fin.Err.Code != fault.BudgetExceeded || fin.Steps != 1 {
				t.Fatalf("%+v", fin)
			}
			if fin.Err.Details["resource"] != tt.resource || fin.Err.Details["agent_path"] != "primary" {
				t.Errorf("%+v", fin.Err.Details)
			}
			if !strings.Contains(fin.Err.Msg, "The budget of primary of ") ||
				!strings.Contains(fin.Err.Msg, "Spent by primary ") {
				t.Error(fin.Err.Msg)
			}
			refused := 0
			for _, r := range of[contract.Record](f.sink) {
				if r.Type == contract.BudgetRefused && r.Payload["resource"] == tt.resource {
					refused++
				}
			}
			states := of[contract.BudgetState](f.sink)
			if refused != 1 || len(states) != 2 || states[1].Spent.Calls != 1 || states[1].Reserved != (contract.Amount{}) {
				t.Errorf("%d refusals are recorded, shown is %+v", refused, states)
			}
		})
	}
}

// A child with a used-up budget fails as a call of its parent. The parent continues, and siblings are not affected.
func TestAChildOutOfBudget(t *testing.T) {
	t.Parallel()
	f := newFamily(t, wants(asks("c1", "a", "Go."), asks("c2", "b", "Go.")), says("Done."))
	f.worker("a", &dsl.Budget{Calls: 1})
	f.worker("b", &dsl.Budget{Calls: 2})
	if fin := f.run(t.Context()); fin.Outcome != contract.Completed {
		t.Fatalf("%+v", fin)
	}
	got := f.answers()
	if a := got["c1"]; !a.failed || a.Error.Code != "budget_exceeded" || a.Steps != 1 ||
		!strings.Contains(a.Error.Message, "The budget of primary.subagents.a of 1 call is used up") {
		t.Errorf("the parent reads %+v", a)
	}
	if b := got["c2"]; b.failed || b.Text != "Found it." {
		t.Errorf("the parent reads %+v", b)
	}
	if n := f.models["a"].calls(); n != 1 {
		t.Errorf("the model of a was asked %d times", n)
	}
}

// A budget covers all agents below its agent: a budget that a child has used up refuses the parent, too.
func TestABudgetCoversTheTree(t *testing.T) {
	t.Parallel()
	f := newFamily(t, wants(asks("c1", "a", "Go.")))
	f.start.Agent.Budget = &dsl.Budget{Calls: 3}
	f.worker("a", nil)
	fin := f.run(t.Context())
	if fin.Outcome != contract.Failed || fin.Err.Code != fault.BudgetExceeded {
		t.Fatalf("%+v", fin)
	}
	want := []any{
		map[string]any{"agent_path": "primary.subagents.a", "spent": int64(2)},
		map[string]any{"agent_path": "primary", "spent": int64(1)},
	}
	if d := cmp.Diff(want, fin.Err.Details["spenders"]); d != "" {
		t.Error(d)
	}
}

// Failed requests count as calls.
func TestFailedCallsCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		unreachable := fault.New(fault.ProviderUnreachable, "No.")
		f := newFamily(t, fails(unreachable), fails(unreachable))
		f.start.Agent.Budget = &dsl.Budget{Calls: 2}
		if fin := f.run(t.Context()); fin.Err.Code != fault.BudgetExceeded || f.model.calls() != 2 {
			t.Errorf("%+v after %d calls", fin, f.model.calls())
		}
	})
}

// A call that breaks off or is cancelled in mid-answer is charged by an estimate of the request and of the received
// answer, tool calls included. The rest of its reservation is released.
func TestAnUnfinishedCallIsChargedByAnEstimate(t *testing.T) {
	t.Parallel()
	const came = 3000
	for name, end := range map[string]func(context.Context, context.CancelFunc) error{
		"broken off": func(context.Context, context.CancelFunc) error {
			return fault.New(fault.ProviderRejected, "It broke off.")
		},
		"cancelled": func(ctx context.Context, cancel context.CancelFunc) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			f := newFamily(t, func(_ context.Context, yield func(llm.Event) bool) error {
				_ = yield(llm.Event{Accepted: &llm.Accepted{}}) && yield(llm.Event{TextDelta: "So"})
				return received{end(ctx, cancel), came}
			})
			f.start.Agent.Budget = &dsl.Budget{Tokens: 2 * boundedOutput}
			fin := f.run(ctx)
			settled := of[contract.CallSettled](f.sink)
			if len(settled) != 1 || !settled[0].Estimated {
				t.Fatalf("settled is %+v", settled)
			}
			asked := requestSize(&f.model.requests[0])
			if got, want := settled[0].Amount.Tokens, framing+tokensOf(asked)+tokensOf(came); got != want {
				t.Errorf("%d tokens are charged, want %d", got, want)
			}
			if got := fin.Usage.Output; got != tokensOf(came) {
				t.Errorf("the run shows %d tokens of output, want %d", got, tokensOf(came))
			}
		})
	}
}

// Under a budget in US dollars or tokens each request limits its answer, at most to the model's own limit.
func TestAnswersAreBoundedUnderABudget(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		budget *dsl.Budget
		own    int
		model  string
		want   int
	}{
		"no budget":            {nil, 0, "m1", 0},
		"a budget of calls":    {&dsl.Budget{Calls: 5}, 0, "m1", 0},
		"a budget of tokens":   {&dsl.Budget{Tokens: 100_000}, 0, "m1", boundedOutput},
		"a bound of its own":   {&dsl.Budget{Tokens: 100_000}, 70, "m1", 70},
		"a model with a bound": {&dsl.Budget{Tokens: 100_000}, 0, "short", 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFamily(t, says("Done."))
			f.start.Agent.Budget, f.start.Agent.MaxOutputTokens = tt.budget, tt.own
			f.start.Routes["smart"] = routeTo("fake:" + tt.model)
			if fin := f.run(t.Context()); fin.Outcome != contract.Completed {
				t.Fatalf("%+v", fin)
			}
			if got := f.model.requests[0].MaxOutputTokens; got != tt.want {
				t.Errorf("the model may write %d tokens, want %d", got, tt.want)
			}
		})
	}
}

// A model without a known price is refused under a budget in US dollars unless the budget allows it. A rehearsal is
// free.
func TestUnpricedModels(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		allow, rehearsal, refused bool
	}{
		"refused": {refused: true}, "allowed": {allow: true}, "a rehearsal": {rehearsal: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFamily(t)
			if !tt.refused {
				f.model.answers = []play{says("Done.")}
			}
			f.start.Agent.Budget = &dsl.Budget{NanoUSD: 1, AllowUnpriced: tt.allow}
			route := routeTo("fake:unpriced")
			if tt.rehearsal {
				route.Targets[0].Driver = rehearsal
			}
			f.start.Routes["smart"] = route
			fin := f.run(t.Context())
			if tt.refused != (fin.Outcome == contract.Failed) {
				t.Fatalf("%+v", fin)
			}
			if tt.refused && !strings.Contains(fin.Err.Msg, "the price of fake:unpriced is not known") {
				t.Error(fin.Err.Msg)
			}
		})
	}
}

// A time limit ends an agent and those below it, as a failed call of its parent. Time that an operator takes does not
// count.
func TestWalltime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFamily(t, wants(asks("c1", "a", "Go.")), says("Done."))
		a := f.child(f.start.Agent, "a", wants(call("x", "file.write", "{}")), wants(asks("c2", "b", "Go.")))
		a.Budget = &dsl.Budget{Walltime: 10 * time.Second}
		f.child(a, "b", func(ctx context.Context, yield func(llm.Event) bool) error {
			<-ctx.Done()
			return ctx.Err()
		})
		f.deps.Tools = questions{f.tools}
		f.sink.answer = func(ctx context.Context, q contract.ApprovalRequested) (contract.Decision, error) {
			<-time.After(time.Hour)
			return contract.Decision{Verdict: contract.Denied}, nil
		}
		began := time.Now()
		if fin := f.run(t.Context()); fin.Outcome != contract.Completed {
			t.Fatalf("%+v", fin)
		}
		if took := time.Since(began); took != time.Hour+10*time.Second {
			t.Errorf("it took %s", took)
		}
		got := f.answers()["c1"]
		if !got.failed || got.Error.Code != "budget_exceeded" || !strings.Contains(got.Error.Message, "of 10s is used up") {
			t.Errorf("the parent reads %+v", got)
		}
		if ended := of[contract.AgentEnded](f.sink); len(ended) != 2 || ended[0].Err.Code != fault.BudgetExceeded {
			t.Errorf("%+v", ended)
		}
	})
}

// A budget limits the number of working agents below an agent and their depth. A call over the number waits for the
// other calls of its turn.
func TestABudgetBoundsTheTree(t *testing.T) {
	t.Parallel()
	f := newFamily(t, wants(asks("c1", "a", "Go."), asks("c2", "a", "Go.")), says("Done."))
	f.start.Agent.Budget = &dsl.Budget{LiveAgents: 2, Depth: 1}
	f.child(f.start.Agent, "a", wants(asks("d", "b", "Go.")), says("one"), wants(asks("d", "b", "Go.")), says("two"))
	f.child(f.start.Agent.Children[0], "b")
	if fin := f.run(t.Context()); fin.Outcome != contract.Completed {
		t.Fatalf("%+v", fin)
	}
	if got := f.answers(); got["c1"].Text != "one" || got["c2"].Text != "two" {
		t.Errorf("the parent reads %+v", got)
	}
	for i, r := range f.models["a"].requests {
		if i%2 == 1 && !strings.Contains(fmt.Sprint(results(r)), "1 levels below it") {
			t.Errorf("the child reads %v", results(r))
		}
	}
}

// The estimate of a request is the count of the request before plus an estimate of the items added since.
func TestEstimate(t *testing.T) {
	t.Parallel()
	v := &invocation{}
	if got := v.estimate(300); got != 100+framing {
		t.Errorf("without an answer: %d", got)
	}
	v.answered = sized{bytes: 300, tokens: 70}
	if got := v.estimate(330); got != 80 {
		t.Errorf("after one: %d", got)
	}
	if got := v.estimate(30); got != 10+framing {
		t.Errorf("of a shorter conversation: %d", got)
	}
}

// A metered run asks before each model call and reports each call's use once, with its turn. A refusal fails the run,
// and the refused call is not made.
func TestAMeteredRunAsksForEachCall(t *testing.T) {
	t.Parallel()
	f := newFamily(t, wants(call("c1", "file.read", "{}")))
	f.start.Metered = true
	f.sink.grant = func(_ context.Context, w contract.CallWanted) (contract.CallGranted, error) {
		g := contract.CallGranted{Call: w.Call}
		if w.Call == 2 {
			g.Err = contract.Overdraft{
				Scope: contract.SessionBudget, Resource: contract.BudgetCalls, Limit: 1, Spent: 1, Wanted: 1,
			}.Fault()
		}
		return g, nil
	}
	fin := f.run(t.Context())
	if fin.Err == nil || fin.Err.Code != fault.BudgetExceeded || fin.Err.Details["scope"] != "session" ||
		f.model.calls() != 1 {
		t.Fatalf("%+v after %d calls", fin, f.model.calls())
	}
	if got := f.model.requests[0].MaxOutputTokens; got != boundedOutput {
		t.Errorf("the model may write %d tokens", got)
	}
	asked, settled := of[contract.CallWanted](f.sink), of[contract.CallSettled](f.sink)
	if len(asked) != 2 || asked[0].Amount.Calls != 1 || asked[0].Amount.Tokens <= boundedOutput ||
		asked[0].Model != "fake:m1" {
		t.Errorf("asked for %+v", asked)
	}
	used := contract.Amount{NanoUSD: 15 * dsl.NanoUSD, Tokens: 17, Calls: 1}
	want := []contract.CallSettled{{Call: 1, Amount: used, OfTurn: true}}
	if d := cmp.Diff(want, settled); d != "" {
		t.Error(d)
	}
}

// Children that spend the last of their parent's budget at the same time never exceed it. Each refused child is a
// failed call, and each child that began ends.
func TestSiblingsAtTheEndOfABudget(t *testing.T) {
	t.Parallel()
	const limit = 6
	f := newFamily(t, wants(
		asks("c1", "a", "Go."), asks("c2", "b", "Go."), asks("c3", "c", "Go."), asks("c4", "d", "Go."),
	))
	f.start.Agent.Budget = &dsl.Budget{Calls: limit}
	for _, key := range []string{"a", "b", "c", "d"} {
		f.worker(key, nil)
	}
	fin := f.run(t.Context())
	if fin.Outcome != contract.Failed || fin.Err.Code != fault.BudgetExceeded {
		t.Fatalf("%+v", fin)
	}
	calls := 0
	for _, m := range f.models {
		calls += m.calls()
	}
	if calls != limit {
		t.Errorf("%d calls were made of %d", calls, limit)
	}
	begun, ended := of[contract.AgentStarted](f.sink), of[contract.AgentEnded](f.sink)
	refused := 0
	for _, e := range ended {
		if e.Outcome == contract.Failed {
			refused++
		}
	}
	if len(begun) != 4 || len(ended) != 4 || refused < 2 {
		t.Errorf("%d agents began, %d ended, %d of them refused", len(begun), len(ended), refused)
	}
	wanted, settled := of[contract.CallWanted](f.sink), of[contract.CallSettled](f.sink)
	if len(wanted) != limit || len(settled) != limit {
		t.Errorf("%d calls are reserved for, %d settled", len(wanted), len(settled))
	}
}

// A child's provider that reports impossible usage spends only the budgets around the child, and at most the bound of
// a report. A sibling with its own budget and the totals are not affected.
func TestAnImpossibleUsageInADelegation(t *testing.T) {
	t.Parallel()
	absurd := llm.Usage{Input: math.MaxInt64, Output: math.MinInt64, CacheRead: math.MaxInt64, Reasoning: -5}
	f := newFamily(t, wants(asks("c1", "a", "Go."), asks("c2", "b", "Go.")), says("Done."))
	f.child(f.start.Agent, "a", func(_ context.Context, yield func(llm.Event) bool) error {
		yield(llm.Event{Done: &llm.Done{
			Blocks: []llm.Block{{Call: &llm.ToolCall{ID: "x", Name: "file.read", Input: "{}"}}}, Stop: llm.StopToolUse,
			Usage: absurd,
		}})
		return nil
	}).Budget = &dsl.Budget{Tokens: 100_000}
	f.worker("b", &dsl.Budget{Tokens: 100_000})
	fin := f.run(t.Context())
	if fin.Outcome != contract.Completed {
		t.Fatalf("%+v", fin)
	}
	got := f.answers()
	if a := got["c1"]; !a.failed || a.Error.Code != "budget_exceeded" || a.Tokens < 0 || a.Tokens > 2*llm.MaxReported {
		t.Errorf("the parent reads %+v", a)
	}
	if b := got["c2"]; b.failed || b.Text != "Found it." {
		t.Errorf("the parent reads %+v", b)
	}
	for _, s := range of[contract.CallSettled](f.sink) {
		if s.Amount.Tokens < 0 || s.Amount.NanoUSD < 0 || s.Amount.Tokens > 2*llm.MaxReported {
			t.Errorf("settled is %+v", s)
		}
	}
}
