package llm_test

import (
	"testing"

	"kaged.dev/pkg/llm"
)

// The common beginning of two lists is the same whether they share their memory or hold the same messages elsewhere.
func TestCommon(t *testing.T) {
	t.Parallel()
	said := func(s string) llm.Message {
		return llm.Message{Role: llm.RoleUser, Blocks: []llm.Block{{Text: &llm.Text{Text: s}}}}
	}
	a := make([]llm.Message, 0, 4)
	a = append(a, said("a"), said("b"))
	for name, c := range map[string]struct {
		b    []llm.Message
		want int
	}{
		"nothing":        {nil, 0},
		"grown in place": {append(a, said("c")), 2},
		"shorter":        {a[:1], 1},
		"elsewhere":      {[]llm.Message{a[0], a[1], said("c")}, 2},
		"another second": {[]llm.Message{a[0], said("b"), a[1]}, 1},
		"another first":  {a[1:], 0},
	} {
		if got, back := llm.Common(a, c.b), llm.Common(c.b, a); got != c.want || back != c.want {
			t.Errorf("%s: %d and %d in common, want %d", name, got, back, c.want)
		}
	}
}
