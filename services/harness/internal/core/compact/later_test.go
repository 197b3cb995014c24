package compact_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/llm"
	"kaged.dev/services/harness/internal/core/compact"
)

// A run that prunes, drops and prunes again sends the same requests as a later run that starts from the stored
// messages without the superseded ones. So their requests begin alike, and the provider's cache is valid across runs.
func TestALaterRunFoldsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules := compact.Pruning{
			Protect: int64(rapid.IntRange(0, 300).Draw(t, "protect")), Minimum: int64(rapid.IntRange(0, 150).Draw(t, "minimum")),
			Protected: func(string) bool { return false },
		}
		messages, sources := []llm.Message{said(llm.RoleUser, "the task")}, []contract.Source{{MessageID: "m"}}
		c := compact.New(messages, sources)
		superseded := map[int]bool{}
		note := ""
		for i := range rapid.IntRange(2, 15).Draw(t, "steps") {
			of := contract.Source{MessageID: "r", Step: i + 1}
			turn := step(fmt.Sprint("c", i), strings.Repeat("word ", rapid.IntRange(1, 120).Draw(t, "size")))
			messages = append(messages, turn...)
			for range turn {
				sources = append(sources, of)
			}
			c.Append(of, turn...)
			c.Prune(rules)
			if !rapid.Bool().Draw(t, "drop") {
				continue
			}
			shorter, d := c.Drop(c.Tokens()*2/3, nil, "")
			if d.Messages == 0 {
				continue
			}
			c, note = shorter, d.Note
			c.Prune(rules)
			for j, s := range sources {
				if slices.ContainsFunc(d.Spans, func(p contract.Span) bool {
					return p.MessageID == s.MessageID &&
						p.Covers(s.Step)
				}) {
					superseded[j] = true
				}
			}
		}
		var left []llm.Message
		told := false
		for j, m := range messages {
			switch {
			case !superseded[j]:
				left = append(left, m)
			case !told:
				told = true
				left = append(left, llm.Message{Role: llm.RoleSystem, Blocks: []llm.Block{{Text: &llm.Text{Text: note}}}})
			}
		}
		later := compact.New(left, nil)
		later.Prune(rules)
		if d := cmp.Diff(later.Messages(), c.Messages()); d != "" {
			t.Fatalf("-later +now:\n%s", d)
		}
	})
}
