package loop

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
)

// narrow returns a bench with a window of 4,000 tokens. Its model reads a file in each of n steps, and each result
// has about 300 tokens.
func narrow(t *testing.T, n int) *bench {
	var plays []play
	for i := range n {
		plays = append(plays, wants(call(fmt.Sprint("c", i), "file.read", fmt.Sprintf(`{"path":"%d"}`, i))))
	}
	b := newBench(t, append(plays, says("done"))...)
	content := strings.Repeat("word ", 300)
	b.tools.run["file.read"] = func(context.Context, string) (string, error) { return content, nil }
	b.start.Routes["smart"] = routeTo("fake:narrow")
	b.start.MaxSteps, b.start.MaxOutputTokens, b.start.MessageID = 100, 400, "m2"
	b.start.Sources = []contract.Source{{MessageID: "m1"}}
	return b
}

// compactions returns the stages that a run reported.
func (b *bench) compactions() (out []contract.Compaction) {
	for _, e := range b.sink.events {
		if c, ok := e.(contract.Compaction); ok {
			out = append(out, c)
		}
	}
	return out
}

// A run that outgrows its model's window drops its oldest steps before a request that would not fit, and completes.
// Each request holds the task, and each call has its result (H-COMPACT-TRIG-01, H-COMPACT-TRIG-02, H-COMPACT-TRIG-04,
// H-COMPACT-DROP-02, H-COMPACT-DROP-03, H-COMPACT-REC-03).
func TestALongRunStaysInsideItsWindow(t *testing.T) {
	t.Parallel()
	b := narrow(t, 40)
	if fin := b.run(t.Context()); fin.Outcome != contract.Completed || fin.Steps != 41 {
		t.Fatalf("%+v", fin)
	}
	var phases []string
	last := 0
	for _, c := range b.compactions() {
		phases = append(phases, string(c.Phase))
		if c.Phase != contract.CompactionCompleted {
			continue
		}
		if c.Before <= 3400 || c.After > 2400 || c.Window != 4000 {
			t.Errorf("from %d to %d of %d tokens, want above 3400, at most 2400, 4000", c.Before, c.After, c.Window)
		}
		if len(c.Spans) != 1 || c.Spans[0].MessageID != "m2" || c.Spans[0].From != last+1 {
			t.Errorf("spans %v, want one of m2 from step %d", c.Spans, last+1)
			continue
		}
		last = c.Spans[0].To
	}
	if len(phases) < 4 || slices.Contains(phases, "noop") || phases[0] != "triggered" || phases[1] != "completed" {
		t.Errorf("stages %v", phases)
	}
	turns := 0
	for i, req := range b.model.requests {
		if text := req.Messages[0].Blocks[0].Text.Text; text != "Do it." {
			t.Fatalf("request %d begins with %q", i, text)
		}
		if got := len(llm.Normalize(req.Messages)); got != len(req.Messages) {
			t.Errorf("request %d is not in the form that providers take", i)
		}
		turns = req.Superseded
		for _, m := range req.Messages {
			if m.Role == llm.RoleAssistant {
				turns++
			}
		}
		if turns != i {
			t.Errorf("request %d counts %d turns", i, turns)
		}
	}
}

// After a provider refuses a request as too long, it is asked once more with a shorter one. A second refusal ends the
// run, and so does the first if no unit can be dropped (H-COMPACT-REACT-02, H-COMPACT-REACT-03, H-COMPACT-REACT-04,
// H-COMPACT-TRIG-05).
func TestOverflowIsRetriedOnce(t *testing.T) {
	t.Parallel()
	answer := strings.Repeat("word ", 100)
	overflow := fails(fault.New(fault.ContextOverflow, "Too long."))
	history := func(b *bench) {
		b.start.History, b.start.Sources = nil, nil
		for i := range 6 {
			b.start.History = append(b.start.History,
				llm.Message{Role: llm.RoleUser, Blocks: []llm.Block{{Text: &llm.Text{Text: fmt.Sprint("wish ", i)}}}},
				llm.Message{Role: llm.RoleAssistant, Blocks: []llm.Block{{Text: &llm.Text{Text: answer}}}})
			b.start.Sources = append(b.start.Sources,
				contract.Source{MessageID: fmt.Sprint("u", i)}, contract.Source{MessageID: fmt.Sprint("a", i)})
		}
		b.start.History, b.start.Sources = b.start.History[:11], b.start.Sources[:11]
	}
	t.Run("once", func(t *testing.T) {
		b := newBench(t, overflow, says("done"))
		history(b)
		if fin := b.run(t.Context()); fin.Outcome != contract.Completed {
			t.Fatalf("%+v", fin)
		}
		if first, second := len(b.model.requests[0].Messages), len(b.model.requests[1].Messages); second >= first {
			t.Errorf("%d messages, then %d", first, second)
		}
		got := b.compactions()
		if len(got) != 2 || got[1].Phase != contract.CompactionCompleted || got[1].Trigger != contract.OverflowRetry {
			t.Errorf("stages %+v", got)
		}
		if span := got[1].Spans[0]; span != (contract.Span{MessageID: "a0"}) {
			t.Errorf("first span %+v, want all of a0", span)
		}
	})
	t.Run("twice", func(t *testing.T) {
		b := newBench(t, overflow, overflow)
		history(b)
		if fin := b.run(t.Context()); fin.Outcome != contract.Failed || fault.CodeOf(fin.Err) != fault.ContextOverflow {
			t.Fatalf("%+v", fin)
		}
	})
	t.Run("in the middle of an answer", func(t *testing.T) { // H-COMPACT-REACT-06
		b := newBench(t, func(_ context.Context, yield func(llm.Event) bool) error {
			_ = yield(llm.Event{Accepted: &llm.Accepted{Usage: used}}) && yield(llm.Event{TextDelta: "I beg"})
			return fault.New(fault.ContextOverflow, "Too long.")
		}, says("done"))
		history(b)
		fin := b.run(t.Context())
		if fin.Outcome != contract.Completed || b.model.calls() != 2 {
			t.Fatalf("%+v after %d calls", fin, b.model.calls())
		}
		if got := b.compactions(); len(got) != 2 || got[1].Trigger != contract.OverflowRetry {
			t.Errorf("stages %+v", got)
		}
		if got := of[contract.Retracted](b.sink); len(got) != 1 {
			t.Errorf("the shown beginning is taken back %d times", len(got))
		}
		turns := of[contract.TurnDone](b.sink)
		if len(turns) != 1 || textOf(turns[0].Blocks) != "done" || turns[0].Usage.Input != 2*used.Input ||
			fin.Usage.Input != 2*used.Input {
			t.Errorf("turns %+v, the run used %+v", turns, fin.Usage)
		}
	})
	t.Run("in each run anew", func(t *testing.T) { // H-COMPACT-REACT-07
		b := newBench(t, overflow, says("done"), overflow, says("done"))
		history(b)
		for range 2 {
			if fin := b.run(t.Context()); fin.Outcome != contract.Completed {
				t.Fatalf("%+v", fin)
			}
		}
	})
	t.Run("nothing to drop", func(t *testing.T) {
		b := newBench(t, overflow)
		if fin := b.run(t.Context()); fin.Outcome != contract.Failed || fault.CodeOf(fin.Err) != fault.ContextOverflow {
			t.Fatalf("%+v", fin)
		}
		if got := b.compactions(); len(got) != 2 || got[1].Phase != contract.CompactionNoop {
			t.Errorf("stages %+v, want a no-op", got)
		}
	})
}

// Below the threshold the whole conversation reaches the model, in any number of messages and without a compaction.
// An unknown window counts as 128,000 tokens (H-COMPACT-OWN-01, H-COMPACT-NOTRIM-01, H-COMPACT-PIPE-03,
// H-COMPACT-TRIG-03).
func TestEveryMessageReachesTheModel(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text  string
		whole bool
	}{"tiny": {"x", true}, "above": {strings.Repeat("word ", 25), false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, says("done"))
			b.start.Routes["smart"] = routeTo("fake:unknown")
			b.start.History, b.start.Sources = nil, nil
			for i := range 5001 {
				role := []llm.Role{llm.RoleUser, llm.RoleAssistant}[i%2]
				b.start.History = append(b.start.History,
					llm.Message{Role: role, Blocks: []llm.Block{{Text: &llm.Text{Text: c.text}}}})
				b.start.Sources = append(b.start.Sources, contract.Source{MessageID: fmt.Sprint(i)})
			}
			if fin := b.run(t.Context()); fin.Outcome != contract.Completed {
				t.Fatalf("%+v", fin)
			}
			n, stages := len(b.model.requests[0].Messages), len(b.compactions())
			if got := n == 5001 && stages == 0; got != c.whole {
				t.Errorf("%d messages, %d stages of compactions", n, stages)
			}
		})
	}
}

// Units named by always_keep are kept, and the thresholds are the agent's. A strategy that is not supported falls
// back to drop and reports that (H-COMPACT-KEEP-02, H-COMPACT-CFG-01). H-COMPACT-CKPT-01 and -02 wait for
// checkpoints.
func TestCompactionFollowsTheAgent(t *testing.T) {
	t.Parallel()
	b := narrow(t, 20)
	b.start.Agent.Compaction = &dsl.Compaction{
		Strategy: contract.StrategyCheckpoint, UpperThreshold: 0.9, LowerThreshold: 0.5,
		AlwaysKeep: []string{"tool:shell.*"},
	}
	b.model.answers[1] = wants(call("kept", "shell.bash", `{"command":"true"}`))
	if fin := b.run(t.Context()); fin.Outcome != contract.Completed {
		t.Fatalf("%+v", fin)
	}
	got := b.compactions()
	if len(got) < 3 || got[1].Phase != contract.CompactionFailed || got[1].Fallback != contract.StrategyDrop {
		t.Fatalf("stages %+v, want a failed one in second place", got)
	}
	if got[0].Upper != 0.9 || got[0].Lower != 0.5 {
		t.Errorf("thresholds %v and %v", got[0].Upper, got[0].Lower)
	}
	last := b.model.requests[len(b.model.requests)-1]
	if !slices.ContainsFunc(results(last), func(r llm.ToolResult) bool { return r.CallID == "kept" }) {
		t.Error("the call that always_keep names was dropped")
	}
}

// Old tool results are replaced by a notice before a message is dropped, unless the agent's file disables pruning
// (H-PRUNE-01, H-PRUNE-03, H-PRUNE-07).
func TestPruningComesFirst(t *testing.T) {
	t.Parallel()
	protect, minimum := int64(600), int64(300)
	for name, disabled := range map[string]bool{"on": false, "off": true} {
		t.Run(name, func(t *testing.T) {
			b := narrow(t, 10)
			b.start.Routes["smart"] = routeTo("fake:wide")
			b.start.Agent.Compaction = &dsl.Compaction{Prune: &dsl.Prune{
				Disabled: disabled, ProtectTokens: &protect, MinimumSavings: &minimum,
				ProtectedTools: []string{"file.list"},
			}}
			if fin := b.run(t.Context()); fin.Outcome != contract.Completed {
				t.Fatalf("%+v", fin)
			}
			pruned := 0
			for _, r := range results(b.model.requests[10]) {
				if r.Content == "[Pruned — 300 tokens]" {
					pruned++
				}
			}
			if got := pruned > 0; got == disabled || len(b.compactions()) != 0 {
				t.Errorf("%d results pruned, %d stages of compaction", pruned, len(b.compactions()))
			}
		})
	}
}

// A child has its own window: only the child is compacted, in its own name and with its hooks, and no stored message
// of the session is superseded (H-COMPACT-AGENT-01, H-HOOK-SUB-01, H-HOOK-CTX-01).
func TestAChildHasAWindowOfItsOwn(t *testing.T) {
	t.Parallel()
	f := newFamily(t, wants(asks("c1", "scout", "Look.")), says("Done."))
	var plays []play
	for i := range 60 {
		plays = append(plays, wants(call(fmt.Sprint("x", i), "file.read", fmt.Sprintf(`{"path":"%d"}`, i))))
	}
	a := f.child(f.start.Agent, "scout", append(plays, says("Found it."))...)
	a.MaxSteps, a.MaxOutputTokens = 100, 400
	f.start.Routes["scout"] = routeTo("scout:narrow")
	content := strings.Repeat("word ", 300)
	f.tools.run["file.read"] = func(context.Context, string) (string, error) { return content, nil }
	hook := &plugin{name: "memory"}
	f.deps.Hooks = []Hook{hook}
	if fin := f.run(t.Context()); fin.Outcome != contract.Completed {
		t.Fatalf("%+v", fin)
	}
	if got := f.answers()["c1"]; got.Text != "Found it." || got.Steps != 61 {
		t.Errorf("the parent reads %+v", got)
	}
	completed := 0
	for i, e := range f.sink.events {
		c, ok := e.(contract.Compaction)
		if !ok {
			continue
		}
		if f.sink.whose[i] == "" || c.Audit.Agent != a.Path || len(c.Spans) != 0 || c.Window != 4000 {
			t.Errorf("a compaction of %q, agent %s, window %d, spans %v", f.sink.whose[i], c.Audit.Agent, c.Window, c.Spans)
		}
		if c.Phase == contract.CompactionCompleted {
			completed++
		}
	}
	if completed == 0 || len(hook.calls) != completed || hook.after != completed || hook.calls[0].AgentPath != a.Path {
		t.Errorf("%d compactions, %d and %d calls of a hook: %+v", completed, len(hook.calls), hook.after, hook.calls)
	}
}
