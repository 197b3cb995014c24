package transcript_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/llm"
	"kaged.dev/services/session-manager/internal/sessions/core/transcript"
)

// drawStored returns a stored message of any kind.
func drawStored(t *rapid.T, id string) transcript.Stored {
	m := transcript.Stored{ID: id, Role: rapid.SampledFrom([]llm.Role{
		llm.RoleUser, llm.RoleUser, llm.RoleAssistant, llm.RoleAssistant, llm.RoleSystem,
	}).Draw(t, "role")}
	if m.Role != llm.RoleAssistant || rapid.IntRange(0, 5).Draw(t, "plain") == 0 {
		m.Content = rapid.SampledFrom([]string{"", "Hi.", "More."}).Draw(t, "content")
		if m.Role == llm.RoleUser && rapid.IntRange(0, 3).Draw(t, "steers") == 0 {
			m.AfterStep = rapid.IntRange(1, 3).Draw(t, "after")
		}
		return m
	}
	for i := range rapid.IntRange(0, 4).Draw(t, "steps") {
		m.Blocks = append(m.Blocks, text(fmt.Sprint("t", i)))
		if rapid.Bool().Draw(t, "calls") {
			m.Blocks = append(m.Blocks, call(fmt.Sprint(id, i)))
			if rapid.Bool().Draw(t, "answered") {
				m.Blocks = append(m.Blocks, result(fmt.Sprint(id, i)))
			}
		}
	}
	return m
}

// A kept conversation is the history of its messages after any changes: more messages, withdrawn and edited ones,
// superseded parts and their return, marks, other rules for results. Equal beginnings have equal hashes, and only
// those.
func TestTalkFollows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var talk transcript.Talk
		var stored []transcript.Stored
		tools, ids := true, 0
		known := map[string][]transcript.Message{} // by hash
		var given, copies [][]transcript.Message
		defer func() {
			if d := cmp.Diff(copies, given); d != "" {
				t.Fatalf("an earlier conversation was changed (-before +after):\n%s", d)
			}
		}()
		for range rapid.IntRange(1, 12).Draw(t, "runs") {
			n := len(stored)
			switch rapid.IntRange(0, 9).Draw(t, "change") {
			case 0:
				stored = slices.Clone(stored[:rapid.IntRange(0, n).Draw(t, "fork")])
			case 1, 2, 3:
				if n > 0 {
					stored = slices.Clone(stored) // as a history that is read again
					m := &stored[rapid.IntRange(0, n-1).Draw(t, "at")]
					switch rapid.IntRange(0, 3).Draw(t, "what") {
					case 0:
						m.AlwaysKeep = !m.AlwaysKeep
					case 1:
						m.Spans, m.Summary = []contract.Span{{MessageID: m.ID, From: 1, To: 2}}, "Short."
					case 2:
						m.Spans, m.Summary = nil, ""
					case 3:
						m.Content, m.Blocks = m.Content+"!", slices.Clone(m.Blocks)
					}
				}
			case 4:
				tools = !tools
			}
			for range rapid.IntRange(0, 3).Draw(t, "more") {
				ids++
				if rapid.Bool().Draw(t, "moves") {
					stored = slices.Clip(stored)
				}
				stored = append(stored, drawStored(t, fmt.Sprint("m", ids)))
			}
			var posted []transcript.Stored // the last message is not in the list yet, and may never be
			switch n := len(stored); rapid.IntRange(0, 3).Draw(t, "posted") {
			case 0, 1:
				if n > 0 {
					talk.Follow(stored[:n-1], []transcript.Stored{stored[n-1]}, tools)
				}
			case 2:
				posted = []transcript.Stored{drawStored(t, fmt.Sprint("p", ids))}
			}
			got := talk.Follow(stored, posted, tools)
			want := transcript.History(slices.Concat(stored, posted), tools)
			if d := cmp.Diff(want, got.Messages); len(want)+len(got.Messages) > 0 && d != "" {
				t.Fatalf("-history +kept:\n%s", d)
			}
			given, copies = append(given, got.Messages), append(copies, slices.Clone(got.Messages))
			for _, b := range got.Beginnings {
				beginning := got.Messages[:b.Messages]
				if earlier, ok := known[b.Hash]; ok && cmp.Diff(earlier, beginning) != "" {
					t.Fatalf("two beginnings have the hash %s", b.Hash)
				}
				known[b.Hash] = slices.Clone(beginning)
				chain := contract.Chain{}
				for _, m := range beginning {
					chain = chain.With(m.Message, m.Source, m.AlwaysKeep)
				}
				if chain.String() != b.Hash {
					t.Fatalf("the hash of a beginning is %s, want %s", b.Hash, chain)
				}
			}
		}
	})
	if got := (*transcript.Talk)(nil).Follow(nil, []transcript.Stored{{ID: "m", Role: llm.RoleUser, Content: "a"}},
		true); len(got.Messages) != 1 || got.Beginnings != nil {
		t.Errorf("without a talk the conversation is %+v", got)
	}
}
