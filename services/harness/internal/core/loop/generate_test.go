package loop

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
)

var (
	limited = fault.New(fault.ProviderRateLimited, "Slow down.").With("status", 429).With("provider", "p")
	refused = fault.New(fault.ProviderUnreachable, "Provider p could not be reached.").With("provider", "p")
	status5 = fault.New(fault.ProviderUnreachable, "Provider p failed: overload.").With("provider", "p").
		With("status", 500)
	garbage  = fault.New(fault.ProviderBadResponse, "Provider p answered with garbage.")
	rejected = fault.New(fault.ProviderAuthFailed, "Provider p refused the credentials.").With("status", 401)
)

// The next provider is asked at once. The last one is asked three times, with a delay of 0.5 s that doubles. The
// texts are for the operator (decision 22, H-PROV-FB-01, H-PROV-FB-02, H-PROV-FB-03, H-FAIL-GEN-01, H-PROV-ERR-01,
// H-TEST-PROV-01).
func TestFallbackAndRetries(t *testing.T) {
	wish := func(d time.Duration) *fault.Error { return limited.With("retry_after_ms", d.Milliseconds()) }
	for name, tt := range map[string]struct {
		routes  []string
		answers map[string][]play
		took    time.Duration
		retries []string // provider and delay of each
		err     string   // code and message
		by      string
	}{
		"the first works": {routes: []string{"a:m", "b:m"}, answers: map[string][]play{"a": {says("x")}}, by: "a:m"},
		"the second works": {
			routes: []string{"a:m", "b:m"}, answers: map[string][]play{"a": {fails(limited)}, "b": {says("x")}},
			retries: []string{"b 0s"}, by: "b:m",
		},
		"garbage falls back": {
			routes: []string{"a:m", "b:m"}, answers: map[string][]play{"a": {fails(garbage)}, "b": {says("x")}},
			retries: []string{"b 0s"}, by: "b:m",
		},
		"the last at the third try": {
			routes: []string{"a:m", "b:m"}, took: 1500 * time.Millisecond,
			answers: map[string][]play{"a": {fails(refused)}, "b": {fails(status5), fails(limited), says("x")}},
			retries: []string{"b 0s", "b 500ms", "b 1s"}, by: "b:m",
		},
		"all limited": {
			routes: []string{"a:m", "b:m"}, took: 1500 * time.Millisecond,
			answers: map[string][]play{"a": {fails(limited)}, "b": {fails(limited), fails(limited), fails(limited)}},
			retries: []string{"b 0s", "b 500ms", "b 1s"},
			err:     "provider_rate_limited: All providers rate-limited. Try again later.",
		},
		"all refused": {
			routes: []string{"a:m"}, took: 1500 * time.Millisecond,
			answers: map[string][]play{"a": {fails(refused), fails(refused), fails(refused)}},
			retries: []string{"a 500ms", "a 1s"}, err: "provider_unreachable: Provider unreachable.",
		},
		"all fail": {
			routes: []string{"a:m"}, took: 1500 * time.Millisecond,
			answers: map[string][]play{"a": {fails(status5), fails(status5), fails(status5)}},
			retries: []string{"a 500ms", "a 1s"},
			err:     "provider_unreachable: Agent generation failed: Provider p failed: overload.",
		},
		"retry-after is honoured": {
			routes: []string{"a:m"}, took: time.Minute, answers: map[string][]play{"a": {fails(wish(time.Minute)), says("x")}},
			retries: []string{"a 1m0s"}, by: "a:m",
		},
		"too long a wish is not waited for": {
			routes: []string{"a:m"}, answers: map[string][]play{"a": {fails(wish(61 * time.Second))}},
			err: "provider_rate_limited: All providers rate-limited. Try again later.",
		},
		"refused credentials are for people": {
			routes: []string{"a:m", "b:m"}, answers: map[string][]play{"a": {fails(rejected)}},
			err: "provider_auth_failed: Agent generation failed: Provider p refused the credentials.",
		},
		"so is an overflow": {
			routes: []string{"a:m", "b:m"}, answers: map[string][]play{
				"a": {fails(fault.New(fault.ContextOverflow, "Too long."))},
			},
			err: "context_overflow: Agent generation failed: Too long.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				models := opener{}
				for _, p := range []string{"a", "b"} {
					models[p] = &model{t: t, answers: tt.answers[p]}
				}
				b.deps.Models = models
				b.start.Routes["smart"] = routeTo(tt.routes...)
				began := time.Now()
				fin := b.run(t.Context())
				if took := time.Since(began); took != tt.took {
					t.Errorf("took %v", took)
				}
				var retries []string
				for i, r := range of[contract.Retry](b.sink) {
					retries = append(retries, r.Provider+" "+(time.Duration(r.DelayMS)*time.Millisecond).String())
					if r.Attempt != i+1 || r.Err == nil {
						t.Errorf("retry %d: %+v", i, r)
					}
				}
				if d := cmp.Diff(tt.retries, retries); d != "" {
					t.Error(d)
				}
				if tt.err != "" {
					if fin.Outcome != contract.Failed || fin.Stop != llm.StopError || fin.Err == nil ||
						fin.Err.Code.String()+": "+fin.Err.Msg != tt.err || fin.Stats != nil {
						t.Errorf("%+v", fin)
					}
					return
				}
				if start := of[contract.MessageStart](b.sink); fin.Outcome != contract.Completed || len(start) != 1 ||
					start[0].Provider+":"+start[0].Model != tt.by {
					t.Errorf("%+v %+v", fin, start)
				}
				for p, m := range models {
					if m.calls() != len(m.answers) {
						t.Errorf("%s was asked %d times", p, m.calls())
					}
				}
			})
		})
	}
}

// The numbers of attempts and parallel tools, and the delays, are configurable. A delay stops doubling at the longest
// delay.
func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		answers := make([]play, 100)
		for i := range answers {
			answers[i] = fails(refused)
		}
		b.model.answers = answers
		b.deps.Limits = Limits{Tries: 100, FirstDelay: time.Second, LongestDelay: 3 * time.Second, Parallel: 1}
		began := time.Now()
		if fin := b.run(t.Context()); fin.Outcome != contract.Failed || b.model.calls() != 100 {
			t.Errorf("%+v after %d calls", fin, b.model.calls())
		}
		if took, want := time.Since(began), (1+2+97*3)*time.Second; took != want {
			t.Errorf("took %v, want %v", took, want)
		}

		b = newBench(t, wants(call("c1", "file.read", "{}"), call("c2", "file.read", "{}")), says("Done."))
		b.deps.Limits.Parallel = 1
		running := 0
		b.tools.run["file.read"] = func(context.Context, string) (string, error) {
			if running++; running > 1 {
				t.Error("two tools run side by side")
			}
			time.Sleep(time.Second)
			running--
			return "", nil
		}
		b.run(t.Context())
	})
}

// breaks answers with a piece of text and then breaks off.
func breaks(text string) play {
	return func(_ context.Context, yield func(llm.Event) bool) error {
		yield(llm.Event{Accepted: &llm.Accepted{Usage: llm.Usage{Input: 100}}})
		yield(llm.Event{TextDelta: text})
		return fault.New(fault.ProviderBadResponse, "The answer of provider fake broke off.")
	}
}

// An answer that breaks off is retracted, and the same target is asked once more, before any tool of the answer runs.
// The turn bills both attempts.
func TestABrokenTurnIsRetracted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, wants(call("c1", "file.read", "{}")), breaks("Half of it"), says("Whole."))
		b.start.Routes["smart"] = routeTo("fake:m1", "other:m2")
		began := time.Now()
		fin := b.run(t.Context())
		if fin.Outcome != contract.Completed || b.model.calls() != 3 || time.Since(began) != 500*time.Millisecond {
			t.Fatalf("%+v after %d calls in %v", fin, b.model.calls(), time.Since(began))
		}
		want := []string{
			"start fake:m1", "turn", "call c1", "result c1", "done", "results stored?",
			"delta Half of it", "retract 2", "retry fake", "delta Whole.", "turn",
		}
		if d := cmp.Diff(want, b.sink.story()); d != "" {
			t.Error(d)
		}
		taken := llm.Usage{Input: 100, Output: 4} // ten bytes of text
		turn := of[contract.TurnDone](b.sink)[1]
		if d := cmp.Diff(used.Add(taken), turn.Usage); d != "" {
			t.Error(d)
		}
		if got, want := turn.Stats.Cost.Total, float64(10+5+100+4); got != want {
			t.Errorf("the turn cost %v, want %v", got, want)
		}
		if d := cmp.Diff(used.Add(used).Add(taken), fin.Usage); d != "" || fin.Stats.Cost.Total != 2*15+104 {
			t.Error(d, fin.Stats.Cost)
		}
		r := of[contract.Retracted](b.sink)[0]
		if r.Reason != "The answer of provider fake broke off." || r.Audit.Type != "agent.turn_retracted" ||
			r.Audit.Payload["tokens_in"] != int64(100) || r.Audit.Payload["cost_usd"] != 104.0 {
			t.Errorf("%+v", r)
		}
		if d := cmp.Diff(b.model.requests[1], b.model.requests[2], cmp.FilterPath(func(p cmp.Path) bool {
			return p.Last().String() == ".Hold"
		}, cmp.Ignore())); d != "" {
			t.Error("the second try asks for something else:", d)
		}
	})
}

// A budget is charged once for each attempt: for the broken one by an estimate, for the complete one by its usage.
func TestABrokenTurnUnderABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, breaks("Half"), says("Whole."))
		b.start.Agent.Budget = &dsl.Budget{NanoUSD: 100_000 * dsl.NanoUSD}
		if fin := b.run(t.Context()); fin.Outcome != contract.Completed {
			t.Fatalf("%+v", fin)
		}
		states := of[contract.BudgetState](b.sink)
		spent := states[len(states)-1].Spent
		// Each token costs a dollar, except cached ones.
		if want := (spent.Tokens - used.CacheRead) * dsl.NanoUSD; spent.Calls != 2 || spent.NanoUSD != want {
			t.Errorf("spent %+v, want %d calls and %d", spent, 2, want)
		}
	})
}

// An answer that breaks off twice fails the run. The second piece is kept, both attempts are billed, and no other
// target is asked (H-STREAM-MAP-01).
func TestATurnIsRetractedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, breaks("First"), breaks("Second"))
		b.start.Routes["smart"] = routeTo("fake:m1", "fake:m2")
		fin := b.run(t.Context())
		const want = "Agent generation failed: The answer of provider fake broke off."
		if fin.Outcome != contract.Failed || fin.Err.Msg != want || b.model.calls() != 2 {
			t.Errorf("%+v", fin)
		}
		if d := cmp.Diff([]llm.Block{{Text: &llm.Text{Text: "Second"}}}, fin.Partial); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff(llm.Usage{Input: 200, Output: 4}, fin.Usage); d != "" || fin.Stats.TTFT == nil {
			t.Error(d)
		}
	})
}

// An answer that breaks off before its first word is estimated from the request's size. If the second attempt is
// refused, only the bill of the first remains.
func TestARetractedTurnMayBeRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(_ context.Context, yield func(llm.Event) bool) error {
			yield(llm.Event{Accepted: &llm.Accepted{}})
			return nil
		}, fails(rejected))
		fin := b.run(t.Context())
		if fin.Outcome != contract.Failed || fin.Err.Code != fault.ProviderAuthFailed || len(fin.Partial) != 0 {
			t.Errorf("%+v", fin)
		}
		if fin.Usage.Input < 10 || fin.Usage.Output != 0 || fin.Stats == nil {
			t.Errorf("%+v %+v", fin.Usage, fin.Stats)
		}
	})
}

// The time at which a target accepts requests again is kept for the run: until then the next target is asked, and
// afterwards the first again.
func TestResetsAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		a := &model{t: t, answers: []play{fails(limited.With("retry_after_ms", int64(10_000))), says("Done.")}}
		other := &model{t: t, answers: []play{wants(call("c1", "file.write", "{}")), wants(call("c2", "file.write", "{}"))}}
		b.deps.Models = opener{"a": a, "b": other}
		b.start.Routes["smart"] = routeTo("a:m", "b:m")
		b.tools.run["file.write"] = func(context.Context, string) (string, error) {
			time.Sleep(6 * time.Second)
			return "", nil
		}
		if fin := b.run(t.Context()); fin.Outcome != contract.Completed {
			t.Fatalf("%+v", fin)
		}
		var by []string
		for _, turn := range of[contract.TurnDone](b.sink) {
			by = append(by, turn.Provider)
		}
		if d := cmp.Diff([]string{"b", "b", "a"}, by); d != "" || a.calls() != 2 {
			t.Error(d, a.calls())
		}
		if n := len(of[contract.Retry](b.sink)); n != 2 { // the refusal, and one report that the target is passed over
			t.Errorf("%d announcements", n)
		}
	})
}

// If all targets refuse, the one with the shortest wait is awaited. A target with too long a wait is not asked.
func TestTheSoonestResetIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tree := New(Deps{Limits: DefaultLimits()}, Start{}, &sink{})
		for target, wait := range map[string]time.Duration{"a:m": 90 * time.Second, "b:m": 50 * time.Second} {
			tree.resets.note(target, limited.With("retry_after_ms", wait.Milliseconds()))
		}
		targets := []candidate{
			{Target: llm.Target{Provider: "a", Model: "m"}}, {Target: llm.Target{Provider: "b", Model: "m"}},
		}
		a := attempts{run: &invocation{Tree: tree}, candidates: targets}
		if err := a.passLimited(); err != nil || len(a.candidates) != 1 || a.candidates[0].key() != "b:m" {
			t.Fatalf("%v %v", a.candidates, err)
		}
		began := time.Now()
		if f, err := a.awaitReset(t.Context(), targets[1]); f != nil || err != nil || time.Since(began) != 50*time.Second {
			t.Errorf("%v %v after %v", f, err, time.Since(began))
		}
		tree.resets.note("a:m", limited.With("retry_after_ms", int64(61_000)))
		if f, err := a.awaitReset(t.Context(), targets[0]); f == nil || err != nil || time.Since(began) != 50*time.Second {
			t.Errorf("%v %v after %v", f, err, time.Since(began))
		}
	})
}

// An unusable target is passed over and reported once. If all targets are unusable, the first one's reason is the
// run's error. A missing alias is named (H-DSL-ERR-02).
func TestUnusableTargets(t *testing.T) {
	noKey := fault.New(fault.ProviderNotConfigured, "The provider x has no key.")
	b := newBench(t, wants(call("c1", "file.read", "{}")), says("Done."))
	route := routeTo("x:m", "fake:m1", "nowhere:m")
	route.Targets[0].Unusable = noKey
	b.start.Routes["smart"] = route
	if fin := b.run(t.Context()); fin.Outcome != contract.Completed {
		t.Fatalf("%+v", fin)
	}
	if r := of[contract.Retry](b.sink); len(r) != 1 || r[0].Err != noKey || r[0].Provider != "fake" {
		t.Errorf("%+v", r)
	}

	b = newBench(t)
	b.start.Routes["smart"] = contract.Route{Targets: route.Targets[:1]}
	if fin := b.run(t.Context()); fin.Outcome != contract.Failed || fin.Err.Msg != noKey.Msg {
		t.Errorf("%+v", fin)
	}

	b = newBench(t)
	delete(b.start.Routes, "smart")
	if fin := b.run(t.Context()); fin.Err == nil || fin.Err.Code != fault.ModelAliasNotFound ||
		fin.Err.Msg != "Model alias 'smart' not found in local config." {
		t.Errorf("%+v", fin)
	}
}

// Routes in a storage answer apply to the next call (H-DSL-TRIG-04, H-PROV-ALIAS-02, H-OPEN-03).
func TestRoutesChangeBetweenSteps(t *testing.T) {
	b := newBench(t, wants(call("c1", "file.read", "{}")), says("Done."))
	b.sink.store = func(context.Context, Half) (Stored, error) {
		return Stored{Routes: map[string]contract.Route{"smart": routeTo("fake:other")}}, nil
	}
	b.run(t.Context())
	turns := of[contract.TurnDone](b.sink)
	if turns[0].Model != "m1" || turns[1].Model != "other" || b.model.requests[1].Model != "other" {
		t.Errorf("%+v", turns)
	}
}

// A stopping service stops a run at its next step boundary, and at once in a wait for a retry. The run is handed
// over, and its work is kept.
func TestStopping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, wants(call("c1", "file.write", "{}")))
		stopping := make(chan struct{})
		b.deps.Stopping = stopping
		b.tools.run["file.write"] = func(context.Context, string) (string, error) {
			close(stopping)
			return "written", nil
		}
		fin := b.run(t.Context())
		if fin.Outcome != contract.HandedOver || fin.Err != nil || fin.Steps != 1 {
			t.Errorf("%+v", fin)
		}
		if f := of[contract.ToolFinished](b.sink); len(f) != 1 || f[0].Err != nil || len(of[contract.StepDone](b.sink)) != 1 {
			t.Errorf("%+v", f)
		}

		b = newBench(t, fails(refused), says("never"))
		stopping = make(chan struct{})
		b.deps.Stopping = stopping
		began := time.Now()
		time.AfterFunc(100*time.Millisecond, func() { close(stopping) })
		if fin := b.run(t.Context()); fin.Outcome != contract.HandedOver ||
			time.Since(began) != 100*time.Millisecond {
			t.Errorf("%+v after %v", fin, time.Since(began))
		}
	})
}

// A panic fails its run and no other run (H-STREAM-FAF-01).
func TestPanics(t *testing.T) {
	b := newBench(t, func(context.Context, func(llm.Event) bool) error { panic("secret") })
	if fin := b.run(t.Context()); fin.Outcome != contract.Failed || fin.Err.Code != fault.Internal ||
		strings.Contains(fin.Err.Msg, "secret") {
		t.Errorf("%+v", fin)
	}
	b = newBench(t, says("x"))
	b.sink.onEmit = func(e contract.Event) error {
		if _, ok := e.(contract.Delta); ok {
			panic("secret")
		}
		return nil
	}
	if fin := b.run(t.Context()); fin.Outcome != contract.Failed || fin.Err.Code != fault.Internal {
		t.Errorf("%+v", fin)
	}
	b = newBench(t, says("x"))
	b.sink.onEmit = func(contract.Event) error { return fault.New(fault.Cancelled, "Gone.") }
	if fin := b.run(t.Context()); fin.Outcome != contract.Cancelled {
		t.Errorf("%+v", fin)
	}
}
