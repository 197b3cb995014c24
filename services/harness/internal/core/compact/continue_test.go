package compact

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/llm"
)

// A conversation that is continued in a later run equals the one that is made anew of all messages: messages, sources,
// estimates and pruning. Sharing messages with an earlier conversation changes no content. The conversation that was
// continued stays as it was.
func TestContinuedConversations(t *testing.T) { rapid.Check(t, continuedHolds) }

// FuzzContinued checks the property of TestContinuedConversations.
func FuzzContinued(f *testing.F) { f.Fuzz(rapid.MakeFuzz(continuedHolds)) }

// drawLast appends to a conversation what its run has brought: some of the messages that follow in the later one, as
// they are or changed, and pruned or not.
func drawLast(t *rapid.T, before, whole *Conversation) *Conversation {
	if before.Len() > whole.Len() {
		return before
	}
	for i := before.Len(); i < rapid.IntRange(before.Len(), whole.Len()).Draw(t, "lasts"); i++ {
		m, of := whole.whole(i), whole.sources[i]
		switch rapid.IntRange(0, 9).Draw(t, "differs") {
		case 0:
			m = llm.Message{Role: m.Role, Blocks: []llm.Block{{Text: &llm.Text{Text: "other"}}}}
		case 1:
			of = []contract.Source{{MessageID: "other"}}
		}
		before.add(m, of)
	}
	return before
}

func continuedHolds(t *rapid.T) {
	messages, sources := drawMessages(t)
	at := rapid.IntRange(0, len(messages)).Draw(t, "at")
	rules := Pruning{
		Protect: int64(rapid.IntRange(0, 60).Draw(t, "protect")), Minimum: int64(rapid.IntRange(0, 30).Draw(t, "minimum")),
		Protected: func(string) bool { return false },
	}
	before := New(messages[:at], sources[:at])
	before.Prune(rules)
	kept, unchanged := before.Clone(), before.Clone()
	whole := New(messages, sources)
	whole.Prune(rules)
	last := drawLast(t, before, whole)
	read := slices.Clone(last.messages)
	got, ok := kept.Continued(messages[at:], sources[at:], last)
	if !ok {
		return
	}
	got.Prune(rules)
	other, _ := drawMessages(t)
	earlier := New(other, nil)
	if rapid.Bool().Draw(t, "same") {
		earlier = whole.Clone()
	}
	got.Share(earlier)
	for what, pair := range map[string][2]*Conversation{"continued": {whole, got}, "kept": {unchanged, kept}} {
		want, have := pair[0], pair[1]
		if d := cmp.Diff(want, have, cmp.AllowUnexported(Conversation{}, horizon{}, result{}, unit{})); d != "" {
			t.Fatalf("%s differs (-anew +%s):\n%s", what, what, d)
		}
	}
	if earlier.Len() == whole.Len() && whole.Len() > 0 && llm.Equal(earlier.messages[0], whole.messages[0]) &&
		!got.messages[0].Same(earlier.messages[0]) {
		t.Fatal("an equal message is not shared")
	}
	got.Append(contract.Source{}, llm.Message{Role: llm.RoleUser})
	if d := cmp.Diff(read, last.messages); d != "" {
		t.Fatalf("requests of the last run were changed (-before +after):\n%s", d)
	}
}

// A run goes on in the lists of the run before, so that each stage of a request sees at once what it knows already.
func TestTheNextRunGoesOnInTheSameLists(t *testing.T) {
	t.Parallel()
	text := func(role llm.Role, s string) llm.Message {
		return llm.Message{Role: role, Blocks: []llm.Block{{Text: &llm.Text{Text: s}}}}
	}
	run := New([]llm.Message{text(llm.RoleUser, "task")}, []contract.Source{{MessageID: "m1"}})
	history := run.Clone()
	called, answered := &llm.ToolCall{ID: "c", Name: "f", Input: "{}"}, &llm.ToolResult{CallID: "c", Name: "f"}
	call := llm.Message{Role: llm.RoleAssistant, Blocks: []llm.Block{{Call: called}}}
	result := llm.Message{Role: llm.RoleTool, Blocks: []llm.Block{{Result: answered}}}
	for step := range 40 {
		run.Append(contract.Source{MessageID: "m2", Step: step + 1}, call, result)
	}
	before := run.Messages()
	var stored []llm.Message
	var sources []contract.Source
	for step := range 40 {
		stored = append(stored,
			llm.Message{Role: call.Role, Blocks: slices.Clone(call.Blocks)},
			llm.Message{Role: result.Role, Blocks: slices.Clone(result.Blocks)})
		of := contract.Source{MessageID: "m2", Step: step + 1}
		sources = append(sources, of, of)
	}
	next, ok := history.Continued(
		append(stored, text(llm.RoleAssistant, "done"), text(llm.RoleUser, "more")),
		append(sources, contract.Source{MessageID: "m2", Step: 41}, contract.Source{MessageID: "m3"}), run)
	if !ok || next.Len() != len(before)+2 {
		t.Fatalf("continued %v with %d messages", ok, next.Len())
	}
	for i, m := range next.Messages()[:len(before)] {
		if !m.Same(before[i]) {
			t.Fatalf("message %d was made anew", i)
		}
	}
}
