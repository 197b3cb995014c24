package transcript_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/services/session-manager/internal/sessions/core/transcript"
)

func text(s string) llm.Block { return llm.Block{Text: &llm.Text{Text: s}} }
func call(id string) llm.Block {
	return llm.Block{Call: &llm.ToolCall{ID: id, Name: "file.read", Input: "{}"}}
}

func think(s string) llm.Block {
	return llm.Block{Thinking: &llm.Thinking{Text: s, Opaque: []byte{1}, Driver: "anthropic"}}
}

func result(id string) llm.Block {
	return llm.Block{Result: &llm.ToolResult{CallID: id, Name: "file.read", Content: "out of " + id}}
}

// show renders blocks briefly: text, !call, =result, ~failed result, ?thinking.
func show(blocks []llm.Block) string {
	var out []string
	for _, b := range blocks {
		switch {
		case b.Text != nil:
			out = append(out, b.Text.Text)
		case b.Thinking != nil:
			out = append(out, "?"+b.Thinking.Text)
		case b.Call != nil:
			out = append(out, "!"+b.Call.ID)
		case b.Result.IsError:
			out = append(out, "~"+b.Result.CallID)
		default:
			out = append(out, "="+b.Result.CallID)
		}
	}
	return strings.Join(out, " ")
}

// Repair gives every call a result in its own turn, keeps the place of existing results, and omits results without
// a call.
func TestRepair(t *testing.T) {
	for _, c := range []struct {
		name string
		in   []llm.Block
		want string
	}{
		{"empty", nil, ""},
		{"whole", []llm.Block{text("a"), call("1"), call("2"), result("1"), result("2"), text("b")}, "a !1 !2 =1 =2 b"},
		{"no results", []llm.Block{call("1"), call("2")}, "!1 !2 ~1 ~2"},
		{"one result", []llm.Block{call("1"), call("2"), result("2")}, "!1 !2 =2 ~1"},
		{"before the next turn", []llm.Block{call("1"), call("2"), result("2"), text("b"), call("3")}, "!1 !2 =2 ~1 b !3 ~3"},
		{"result without a call", []llm.Block{result("9"), text("a"), call("1"), result("9"), result("1")}, "a !1 =1"},
		{"answered twice", []llm.Block{call("1"), result("1"), result("1")}, "!1 =1"},
	} {
		if got := show(transcript.Repair(c.in, fault.Interrupted)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	missing := transcript.Repair([]llm.Block{call("1")}, fault.Cancelled)[1].Result
	var content struct {
		Error struct{ Code, Message string }
	}
	if err := json.Unmarshal([]byte(missing.Content), &content); err != nil || content.Error.Code != "cancelled" ||
		content.Error.Message == "" ||
		missing.Name != "file.read" {
		t.Errorf("the missing result is %+v", missing)
	}
}

// A run's message is its turns with their results, the received part of an unfinished turn, and a closing text.
func TestCompose(t *testing.T) {
	steps := []transcript.Step{
		{
			Turn:    transcript.Turn{Turn: contract.Turn{Step: 1, Blocks: []llm.Block{text("a"), call("1")}}},
			Results: []llm.ToolResult{*result("1").Result}, Done: true,
		},
		{Turn: transcript.Turn{Turn: contract.Turn{Step: 2, Blocks: []llm.Block{call("2")}}}},
	}
	if got := show(transcript.Compose(steps, nil, "", fault.Interrupted)); got != "a !1 =1 !2 ~2" {
		t.Error(got)
	}
	blocks := transcript.Compose(steps[:1], []llm.Block{think("hm"), text("b")}, "Stopped.", fault.Cancelled)
	if got := show(blocks); got != "a !1 =1 ?hm b Stopped." {
		t.Error(got)
	}
	if got := transcript.Content(blocks); got != "a\n\nbStopped." {
		t.Error(got)
	}
	if got := transcript.Compose(nil, nil, "", fault.Interrupted); len(got) != 0 {
		t.Errorf("an empty run has %v", got)
	}
}

// A stored run becomes turns and results again, in order. A message without blocks is one text; empty messages are
// omitted; without toolResults, calls and results are omitted as pairs. H-PERS-03, H-STORE-02, H-COMPACT-PIPE-02.
func TestHistory(t *testing.T) {
	stored := []transcript.Stored{
		{ID: "m1", Role: llm.RoleUser, Content: "Hi."},
		{
			ID: "m2", Role: llm.RoleAssistant, Blocks: []llm.Block{
				think("hm"), text("a"), call("1"), call("2"), result("1"), result("2"), text("b"),
			},
		},
		{ID: "m3", Role: llm.RoleSystem, Content: "Summary."},
		{ID: "m4", Role: llm.RoleUser, Content: "More."},
		{ID: "m5", Role: llm.RoleAssistant, Content: ""},
		{ID: "m6", Role: llm.RoleAssistant, Blocks: []llm.Block{call("3")}},
		{ID: "m7", Role: llm.RoleAssistant, Content: "legacy"},
	}
	words := func(list []transcript.Message) []string {
		var out []string
		for _, m := range list {
			out = append(out, fmt.Sprintf("%s %s: %s", m.MessageID, m.Role, show(m.Blocks)))
		}
		return out
	}
	want := []string{
		"m1 user: Hi.", "m2 assistant: ?hm a !1 !2", "m2 tool: =1 =2", "m2 assistant: b", "m3 system: Summary.",
		"m4 user: More.",
		"m6 assistant: !3", "m6 tool: ~3", "m7 assistant: legacy",
	}
	if d := cmp.Diff(want, words(transcript.History(stored, true))); d != "" {
		t.Error(d)
	}
	want = []string{"m1 user: Hi.", "m2 assistant: a b", "m3 system: Summary.", "m4 user: More.", "m7 assistant: legacy"}
	if d := cmp.Diff(want, words(transcript.History(stored, false))); d != "" {
		t.Error(d)
	}
}

// Superseded steps and messages are omitted from a history, with the summary in the place of the first; the
// remaining steps keep their numbers (H-COMPACT-STORE).
func TestHistoryWithoutSupersededParts(t *testing.T) {
	run := []llm.Block{text("a"), call("1"), result("1"), text("b"), call("2"), result("2"), text("c")}
	stored := func(spans ...contract.Span) []transcript.Stored {
		return []transcript.Stored{
			{ID: "m1", Role: llm.RoleUser, Content: "Hi."},
			{ID: "m2", Role: llm.RoleAssistant, Blocks: run, Spans: spans, Summary: "gone", SupersededTurns: 2},
			{ID: "m3", Role: llm.RoleUser, Content: "More.", Spans: []contract.Span{{MessageID: "m3"}}},
			{ID: "m4", Role: llm.RoleUser, Content: "Last."},
		}
	}
	for name, c := range map[string]struct {
		spans       []contract.Span
		whole, text []string
	}{
		"first steps": {
			[]contract.Span{{MessageID: "m2", From: 1, To: 2}},
			[]string{"user@0: Hi.", "system@0: gone", "assistant@3: c", "user@0: Last."},
			[]string{"user@0: Hi.", "system@0: gone", "assistant@0: c", "user@0: Last."},
		},
		"a step in the middle": {
			[]contract.Span{{MessageID: "m2", From: 2, To: 2}},
			[]string{
				"user@0: Hi.", "assistant@1: a !1", "tool@1: =1", "system@0: gone", "assistant@3: c", "user@0: Last.",
			},
			[]string{"user@0: Hi.", "system@0: gone", "assistant@0: a c", "user@0: Last."},
		},
		"all": {
			[]contract.Span{{MessageID: "m2"}},
			[]string{"user@0: Hi.", "system@0: gone", "user@0: Last."},
			[]string{"user@0: Hi.", "system@0: gone", "user@0: Last."},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for tools, want := range map[bool][]string{true: c.whole, false: c.text} {
				var got []string
				for _, m := range transcript.History(stored(c.spans...), tools) {
					got = append(got, fmt.Sprintf("%s@%d: %s", m.Role, m.Step, show(m.Blocks)))
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("with tools %v (-want +got):\n%s", tools, d)
				}
			}
		})
	}
	if n := transcript.SupersededTurns(stored()); n != 2 {
		t.Errorf("got %d superseded turns, want 2", n)
	}
}

// Usage and cost are summed, the first step's time to first token counts, the speed is computed from the totals,
// and the cost is nil if any measured step's cost is unknown.
func TestSum(t *testing.T) {
	ttft := 20.0
	step := func(out int64, stats *llm.Stats) transcript.Step {
		return transcript.Step{
			Turn: transcript.Turn{Turn: contract.Turn{Usage: llm.Usage{Input: 1, Output: out, CacheRead: 2}, Stats: stats}},
		}
	}
	usage, stats := transcript.Sum([]transcript.Step{
		step(10, &llm.Stats{TTFT: &ttft, Duration: 100, TPS: 100, Cost: &llm.Cost{Input: 1, Total: 1}}),
		step(20, nil),
		step(30, &llm.Stats{Duration: 300, TPS: 100, Cost: &llm.Cost{Output: 2, Total: 2}}),
	})
	want := &llm.Stats{TTFT: &ttft, Duration: 400, TPS: 150, Cost: &llm.Cost{Input: 1, Output: 2, Total: 3}}
	if d := cmp.Diff(want, stats); d != "" || usage != (llm.Usage{Input: 3, Output: 60, CacheRead: 6}) ||
		transcript.In(usage) != 9 {
		t.Error(d, usage)
	}
	_, stats = transcript.Sum([]transcript.Step{
		step(1, &llm.Stats{Duration: 1, Cost: &llm.Cost{}}), step(1, &llm.Stats{}),
	})
	if stats.Cost != nil {
		t.Errorf("cost = %v", stats.Cost)
	}
	if usage, stats := transcript.Sum(nil); usage != (llm.Usage{}) || stats != nil {
		t.Errorf("no steps sum to %v, %v", usage, stats)
	}
}

// Stored blocks decode to the same blocks, except for characters that Postgres cannot store.
func TestEncode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.String()
		blocks := rapid.SliceOf(rapid.Custom(func(t *rapid.T) llm.Block {
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				return llm.Block{Text: &llm.Text{Text: words.Draw(t, "text")}}
			case 1:
				opaque := rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(t, "opaque")
				return llm.Block{Thinking: &llm.Thinking{Text: words.Draw(t, "thinking"), Opaque: opaque, Driver: "d"}}
			case 2:
				return llm.Block{
					Call: &llm.ToolCall{ID: words.Draw(t, "id"), Name: words.Draw(t, "name"), Input: words.Draw(t, "input")},
				}
			}
			return llm.Block{Result: &llm.ToolResult{
				CallID: words.Draw(t, "id"), Name: words.Draw(t, "name"), Content: words.Draw(t, "content"),
				IsError: rapid.Bool().Draw(t, "failed"),
			}}
		})).Draw(t, "blocks")
		data, err := transcript.EncodeBlocks(blocks)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), `\u0000`) && !strings.Contains(fmt.Sprint(show(blocks)), `\u0000`) {
			t.Fatalf("the store cannot hold %s", data)
		}
		back, err := transcript.DecodeBlocks(data)
		if err != nil {
			t.Fatal(err)
		}
		again, _ := transcript.EncodeBlocks(back)
		if len(back) != len(blocks) || string(again) != string(data) {
			t.Fatalf("%s became %s", data, again)
		}
	})
	if _, err := transcript.DecodeBlocks([]byte(`[{"type":"image"}]`)); err == nil {
		t.Error("a block of an unknown kind was read")
	}
	if _, err := transcript.DecodeBlocks([]byte(`{`)); err == nil {
		t.Error("garbage was read")
	}
}
