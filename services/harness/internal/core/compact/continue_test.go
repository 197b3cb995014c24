package compact

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"kaged.dev/pkg/llm"
)

// A conversation that is continued in a later run equals the one that is made anew of all messages: messages, sources,
// estimates and pruning. Sharing messages with an earlier conversation changes no content. The conversation that was
// continued stays as it was.
func TestContinuedConversations(t *testing.T) { rapid.Check(t, continuedHolds) }

// FuzzContinued checks the property of TestContinuedConversations.
func FuzzContinued(f *testing.F) { f.Fuzz(rapid.MakeFuzz(continuedHolds)) }

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
	got, ok := kept.Continued(messages[at:], sources[at:])
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
}
