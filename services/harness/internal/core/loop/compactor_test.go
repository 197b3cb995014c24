package loop

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
)

// delegating is a summarizing bench with the built-in compactor, which has a window of 8,000 tokens.
func delegating(t *testing.T, n int, answers ...play) (*bench, *model) {
	b, summarizer := summarizing(t, n, answers...)
	b.start.Routes["sum"] = routeTo("cheap:small")
	b.start.Agent.Compaction.Strategy = contract.StrategyDelegate
	b.start.Agent.Compaction.DelegatePlugin = dsl.Summarizer
	return b, summarizer
}

// textsFor returns the texts that a model was asked.
func textsFor(m *model) (texts []string) {
	for _, req := range m.requests {
		texts = append(texts, req.Messages[0].Blocks[0].Text.Text)
	}
	return texts
}

// The built-in compactor summarizes a conversation that is longer than the summarizer's window in parts. Each part
// follows the summary of the parts before, each superseded message is in one part, and the last summary is used. Its
// use is the sum (H-COMPACT-DEL-01, H-COMPACT-CFG-02, H-COMPACT-PAIR-01).
func TestTheBuiltInCompactorSummarizesInParts(t *testing.T) {
	t.Parallel()
	b, summarizer := delegating(t, 0, says("one"), says("one and two"), says("all"), says("all"), says("all"))
	between(b, 30)
	b.start.Routes["smart"] = routeTo("fake:wide")
	out, err := Compact(t.Context(), b.deps, b.start, contract.CompactOrder{ID: "cmp_x"}, granted)
	if err != nil {
		t.Fatal(err)
	}
	done := out.Stages[len(out.Stages)-1]
	texts := textsFor(summarizer)
	if done.Phase != contract.CompactionCompleted || done.Fallback != "" || len(texts) < 2 || len(done.Spans) == 0 {
		t.Fatalf("%d requests, %+v", len(texts), done)
	}
	if !strings.Contains(texts[1], "[before]\none\n") || strings.Contains(texts[0], "[before]") {
		t.Errorf("the second request has no summary of the first part: %.200s", texts[1])
	}
	for _, span := range done.Spans {
		wish, ok := strings.CutPrefix(span.MessageID, "u")
		if !ok {
			continue
		}
		in := 0
		for _, text := range texts {
			in += strings.Count(text, "[operator]\nwish "+wish+"\n")
		}
		if in != 1 {
			t.Errorf("wish %s is in %d parts", wish, in)
		}
	}
	for i, req := range summarizer.requests {
		if n := int64(len(req.Messages[0].Blocks[0].Text.Text) / 5); n > 8000-summaryTokens {
			t.Errorf("part %d has about %d tokens", i, n)
		}
	}
	use, n := done.Compactor, int64(len(texts))
	if use == nil || use.Input != n*used.TotalInput() || use.Output != n*used.Output || use.Cost == nil ||
		*use.Cost != float64(n*(used.Input+used.Output)) {
		t.Errorf("use %+v after %d requests", use, n)
	}
	if len(done.Fired) != 1 || done.Fired[0].Role != RoleCompactor || done.Fired[0].Name != dsl.Summarizer {
		t.Errorf("fired %+v", done.Fired)
	}
	settled := 0
	for _, e := range out.Calls {
		if s, ok := e.(contract.CallSettled); ok && s.OfTurn {
			settled++
		}
	}
	if settled != len(texts) {
		t.Errorf("%d of %d requests are settled with the compaction", settled, len(texts))
	}
}

// A later compaction in a run passes the earlier summary to the summarizer.
func TestTheBuiltInCompactorKeepsTheEarlierSummary(t *testing.T) {
	t.Parallel()
	var plays []play
	for i := range 60 {
		plays = append(plays, says(fmt.Sprintf("summary %d.", i)))
	}
	b, summarizer := delegating(t, 30, plays...)
	if fin := b.run(t.Context()); fin.Outcome != contract.Completed {
		t.Fatalf("%+v", fin)
	}
	texts := textsFor(summarizer)
	if len(texts) < 2 || !strings.Contains(texts[1], "summary 0.") {
		t.Fatalf("%d requests; the second begins %.300s", len(texts), texts[1])
	}
	last := b.model.requests[len(b.model.requests)-1]
	note := last.Messages[1]
	if want := fmt.Sprintf("summary %d.", len(texts)-1); note.Role != llm.RoleSystem ||
		!strings.Contains(note.Blocks[0].Text.Text, want) {
		t.Errorf("the last request has no %q: %+v", want, note)
	}
}

// Drop replaces the built-in compactor if a request fails, if a step is too long for the compactor's model, or if the
// agent names no model. Every request is settled.
func TestTheBuiltInCompactorFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change  func(*bench)
		answers []play
		reason  string
	}{
		"second part": {
			func(*bench) {}, []play{says("one"), fails(fault.New(fault.ProviderRejected, "No more."))}, "No more.",
		},
		"long step": {func(b *bench) {
			b.start.History[1].Blocks[0].Text.Text = strings.Repeat("word ", 9000)
		}, nil, "One step has about"},
		"no model": {func(b *bench) { b.start.Agent.Compaction.SummarizeModel = "" }, nil, "names no model"},
		"no window": {func(b *bench) {
			b.start.Routes["sum"] = routeTo("cheap:narrow")
		}, nil, "the summarizer has room for 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, summarizer := delegating(t, 0, c.answers...)
			between(b, 30)
			b.start.Routes["smart"] = routeTo("fake:wide")
			c.change(b)
			out, err := Compact(t.Context(), b.deps, b.start, contract.CompactOrder{ID: "cmp_x"}, granted)
			if err != nil {
				t.Fatal(err)
			}
			phases := []contract.CompactionPhase{}
			for _, s := range out.Stages {
				phases = append(phases, s.Phase)
			}
			done := out.Stages[len(out.Stages)-1]
			if !slices.Equal(phases, []contract.CompactionPhase{
				contract.CompactionTriggered, contract.CompactionFailed, contract.CompactionCompleted,
			}) || done.Fallback != contract.StrategyDrop || !strings.Contains(done.Reason, c.reason) {
				t.Fatalf("%v, %+v", phases, done)
			}
			settled := 0
			for _, e := range out.Calls {
				if _, ok := e.(contract.CallSettled); ok {
					settled++
				}
			}
			if n := summarizer.calls(); n != len(c.answers) || settled != n {
				t.Errorf("%d requests, %d settled", n, settled)
			}
		})
	}
}
