package compact_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/llm"
	"kaged.dev/services/harness/internal/core/compact"
)

func said(role llm.Role, text string) llm.Message {
	return llm.Message{Role: role, Blocks: []llm.Block{{Text: &llm.Text{Text: text}}}}
}

// step returns a turn with thinking and one call, and the call's result.
func step(id, content string) []llm.Message {
	return []llm.Message{
		{Role: llm.RoleAssistant, Blocks: []llm.Block{
			{Thinking: &llm.Thinking{Text: "hm", Opaque: []byte("sealed"), Driver: "d"}},
			{Call: &llm.ToolCall{ID: id, Name: "file.read", Input: `{"path":"a"}`}},
		}},
		{Role: llm.RoleTool, Blocks: []llm.Block{
			{Result: &llm.ToolResult{CallID: id, Name: "file.read", Content: content}},
		}},
	}
}

// session returns an operator's message, a run of n steps, and a second message.
func session(n int, content string) ([]llm.Message, []contract.Source) {
	messages, sources := []llm.Message{said(llm.RoleUser, "the task")}, []contract.Source{{MessageID: "m1"}}
	for i := range n {
		messages = append(messages, step(fmt.Sprint("c", i), content)...)
		of := contract.Source{MessageID: "m2", Step: i + 1}
		sources = append(sources, of, of)
	}
	messages = append(messages, said(llm.RoleAssistant, "done"), said(llm.RoleUser, "and now this"))
	sources = append(sources, contract.Source{MessageID: "m2", Step: n + 1}, contract.Source{MessageID: "m3"})
	return messages, sources
}

// Drop takes the oldest units first, names the steps of their stored messages in one span, and leaves a note behind
// the task (H-COMPACT-DROP-02).
func TestDropTakesTheOldest(t *testing.T) {
	messages, sources := session(10, strings.Repeat("word ", 200))
	c := compact.New(messages, sources)
	shorter, d := c.Drop(c.Tokens()/2, nil, "")

	if d.Turns == 0 || d.Turns == 10 || shorter.Tokens() > c.Tokens()/2 {
		t.Fatalf("got %d turns dropped and %d of %d tokens left", d.Turns, shorter.Tokens(), c.Tokens())
	}
	want := []contract.Span{{MessageID: "m2", From: 1, To: d.Turns}}
	if diff := cmp.Diff(want, d.Spans); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	left := shorter.Messages()
	if got := left[0].Blocks[0].Text.Text; got != "the task" {
		t.Errorf("the first message is %q, want the task", got)
	}
	if note := left[1]; note.Role != llm.RoleSystem || note.Blocks[0].Text.Text != d.Note {
		t.Errorf("the second message is %v, want the note", note)
	}
	if got := left[len(left)-1].Blocks[0].Text.Text; got != "and now this" {
		t.Errorf("the last message is %q, want the operator's", got)
	}
}

// A second compaction replaces the note of the first and keeps the operator's words in it.
func TestNotesAreMerged(t *testing.T) {
	messages, sources := []llm.Message{said(llm.RoleUser, "the task")}, []contract.Source{{MessageID: "m0"}}
	for i := range 6 {
		messages = append(messages,
			said(llm.RoleAssistant, strings.Repeat("text ", 300)), said(llm.RoleUser, fmt.Sprint("wish ", i)))
		sources = append(sources,
			contract.Source{MessageID: fmt.Sprint("a", i)}, contract.Source{MessageID: fmt.Sprint("u", i)})
	}
	c := compact.New(messages, sources)
	once, _ := c.Drop(c.Tokens()*2/3, nil, "")
	twice, d := once.Drop(c.Tokens()/3, nil, "")
	notes := 0
	for _, m := range twice.Messages() {
		if m.Role == llm.RoleSystem {
			notes++
		}
	}
	if notes != 1 || !strings.Contains(d.Note, "\n- wish 0\n- wish 1") {
		t.Errorf("got %d notes, the last %q; want one with both wishes", notes, d.Note)
	}
}

// A conversation without a unit to drop is returned unchanged.
func TestDropWithoutAChoice(t *testing.T) {
	long := said(llm.RoleUser, strings.Repeat("long ", 1000))
	c := compact.New([]llm.Message{long}, []contract.Source{{MessageID: "m"}})
	if same, d := c.Drop(10, nil, ""); same != c || d.Messages != 0 {
		t.Errorf("got %d messages dropped, want none", d.Messages)
	}
	messages, sources := session(3, "x")
	all := compact.New(messages, sources)
	if same, d := all.Drop(0, func([]llm.Message, []contract.Source) bool { return true }, ""); same != all ||
		d.Messages != 0 {
		t.Errorf("got %d messages dropped although all are kept", d.Messages)
	}
}

// Old results are replaced by a notice, many at a time. The newest results, those of protected tools, and small ones
// are kept, and all are kept if too little would be saved. Messages of earlier requests are unchanged (H-PRUNE-02,
// H-PRUNE-04..06, H-PRUNE-08).
func TestPrune(t *testing.T) {
	content := strings.Repeat("word ", 100) // 100 tokens
	rules := compact.Pruning{Protect: 500, Minimum: 300, Protected: func(tool string) bool { return tool == "kept" }}
	messages, sources := session(12, content)
	c := compact.New(messages, sources)
	before := c.Messages()
	count, saved := c.Prune(rules)
	if count == 0 || saved < 300 {
		t.Fatalf("pruned %d results, saved %d tokens", count, saved)
	}
	if before[2].Blocks[0].Result.Content != content {
		t.Error("an earlier request's message was changed")
	}
	pruned := 0
	for i, m := range c.Messages() {
		for _, b := range m.Blocks {
			if b.Result != nil && strings.HasPrefix(b.Result.Content, "[Pruned — 100 tokens]") {
				if pruned++; i > 14 {
					t.Errorf("the result of message %d is pruned, though it is among the newest", i)
				}
			}
		}
	}
	if pruned != count {
		t.Errorf("%d notices for %d pruned results", pruned, count)
	}
	rules.Protected = func(string) bool { return true }
	if count, _ := compact.New(messages, sources).Prune(rules); count != 0 {
		t.Errorf("%d results of protected tools were pruned", count)
	}
	rules.Protected, rules.Minimum = func(string) bool { return false }, 1_000_000
	if count, saved := compact.New(messages, sources).Prune(rules); count != 0 || saved != 0 {
		t.Errorf("%d results were pruned to save %d tokens", count, saved)
	}
	tiny, of := session(200, "a few words")
	if count, _ := compact.New(tiny, of).Prune(compact.Pruning{
		Protect: 10, Minimum: 1, Protected: rules.Protected,
	}); count != 0 {
		t.Errorf("%d results shorter than their notice were pruned", count)
	}
}

// A conversation and its continuation are pruned alike, whether the messages were added step by step or all at once.
func TestPruningIsSticky(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(1, 400), 1, 40).Draw(t, "sizes")
		rules := compact.Pruning{
			Protect:   int64(rapid.IntRange(0, 1000).Draw(t, "protect")),
			Minimum:   int64(rapid.IntRange(0, 800).Draw(t, "minimum")),
			Protected: func(string) bool { return false },
		}
		grown := compact.New([]llm.Message{said(llm.RoleUser, "task")}, nil)
		messages := []llm.Message{said(llm.RoleUser, "task")}
		for i, n := range sizes {
			turn := step(fmt.Sprint("c", i), strings.Repeat("word ", n))
			grown.Append(contract.Source{}, turn...)
			grown.Prune(rules)
			messages = append(messages, turn...)
		}
		whole := compact.New(messages, nil)
		whole.Prune(rules)
		if diff := cmp.Diff(whole.Messages(), grown.Messages()); diff != "" {
			t.Fatalf("the conversations differ (-whole +grown):\n%s", diff)
		}
		if whole.Tokens() != grown.Tokens() {
			t.Fatalf("estimates differ: %d and %d", whole.Tokens(), grown.Tokens())
		}
	})
}

// A compaction never separates a call from its result or a turn from its thinking. It never drops the task, the last
// message or a kept unit, and never makes a conversation longer. The result is normalized, and its spans cover
// exactly the dropped messages.
func TestDropProperties(t *testing.T) { rapid.Check(t, dropProperties) }

// FuzzDrop searches for a conversation that breaks these properties.
func FuzzDrop(f *testing.F) { f.Fuzz(rapid.MakeFuzz(dropProperties)) }

func dropProperties(t *rapid.T) {
	var messages []llm.Message
	var sources []contract.Source
	add := func(of contract.Source, m ...llm.Message) {
		for range m {
			sources = append(sources, of)
		}
		messages = append(messages, m...)
	}
	add(contract.Source{MessageID: "first"}, said(llm.RoleUser, "the task"))
	for i := range rapid.IntRange(0, 12).Draw(t, "runs") {
		run := fmt.Sprint("run", i)
		for s := range rapid.IntRange(0, 5).Draw(t, "steps") {
			size := rapid.IntRange(1, 300).Draw(t, "size")
			turn := step(fmt.Sprint(run, "c", s), strings.Repeat("word ", size))
			add(contract.Source{MessageID: run, Step: s + 1}, turn...)
		}
		add(contract.Source{MessageID: run, Step: 9}, said(llm.RoleAssistant, "answer "+run))
		text := "next " + run
		if rapid.Bool().Draw(t, "kept") {
			text = "KEEP " + text
		}
		add(contract.Source{MessageID: "op" + run}, said(llm.RoleUser, text))
	}
	keep := func(unit []llm.Message, _ []contract.Source) bool {
		return unit[0].Blocks[0].Text != nil && strings.HasPrefix(unit[0].Blocks[0].Text.Text, "KEEP")
	}
	c := compact.New(messages, sources)
	rounds := rapid.IntRange(1, 3).Draw(t, "rounds")
	superseded := map[contract.Source]bool{}
	for range rounds {
		before := c
		var d compact.Dropped
		c, d = c.Drop(int64(rapid.IntRange(0, 2000).Draw(t, "limit")), keep, "")
		if d.Messages == 0 && c != before || d.Messages > 0 && c.Tokens() >= before.Tokens() {
			t.Fatalf("dropped %d messages: %d tokens became %d", d.Messages, before.Tokens(), c.Tokens())
		}
		for _, span := range d.Spans {
			for _, s := range sources {
				if s.MessageID == span.MessageID && span.Covers(s.Step) {
					superseded[s] = true
				}
			}
		}
	}
	left := c.Messages()
	if diff := cmp.Diff(llm.Normalize(left), left); diff != "" {
		t.Fatalf("the conversation is not normalized:\n%s", diff)
	}
	var have, want []string
	for _, m := range left {
		have = append(have, words(m)...)
	}
	for i, m := range messages {
		if !superseded[sources[i]] {
			want = append(want, words(m)...)
		}
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Fatalf("what is left is not what no span covers (-want +got):\n%s", diff)
	}
	if last := left[len(left)-1]; last.Role != llm.RoleUser {
		t.Fatalf("the last message is the %s's", last.Role)
	}
}

// words returns the texts, calls and results of a message that is no note.
func words(m llm.Message) (out []string) {
	for _, b := range m.Blocks {
		switch {
		case m.Role == llm.RoleSystem:
		case b.Text != nil:
			out = append(out, b.Text.Text)
		case b.Thinking != nil:
			out = append(out, "thinking")
		case b.Call != nil:
			out = append(out, "call "+b.Call.ID)
		case b.Result != nil:
			out = append(out, "result "+b.Result.CallID)
		}
	}
	return out
}
