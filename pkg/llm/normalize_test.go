package llm_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"kaged.dev/pkg/llm"
)

func text(s string) llm.Block     { return llm.Block{Text: &llm.Text{Text: s}} }
func thinking(s string) llm.Block { return llm.Block{Thinking: &llm.Thinking{Text: s}} }
func call(id string) llm.Block {
	return llm.Block{Call: &llm.ToolCall{ID: id, Name: "t", Input: "{}"}}
}

func result(id, content string) llm.Block {
	return llm.Block{Result: &llm.ToolResult{CallID: id, Name: "t", Content: content}}
}

func cutOff(id string) llm.Block {
	return llm.Block{Result: &llm.ToolResult{CallID: id, Name: "t", Content: llm.Unanswered, IsError: true}}
}

func msg(role llm.Role, blocks ...llm.Block) llm.Message {
	return llm.Message{Role: role, Blocks: blocks}
}

// In a normalized conversation each call is answered once, right after its turn.
func TestNormalize(t *testing.T) {
	const user, model, tool, system = llm.RoleUser, llm.RoleAssistant, llm.RoleTool, llm.RoleSystem
	for name, c := range map[string]struct{ in, want []llm.Message }{
		"in order already": {
			[]llm.Message{msg(user, text("a")), msg(model, text("b"), call("x")), msg(tool, result("x", "1"))},
			[]llm.Message{msg(user, text("a")), msg(model, text("b"), call("x")), msg(tool, result("x", "1"))},
		},
		"empty": {
			[]llm.Message{msg(user, text("")), msg(model), msg(model, thinking("")), msg(user, text("a"), text(""))},
			[]llm.Message{msg(user, text("a"))},
		},
		"neighbours": {
			[]llm.Message{msg(user, text("a")), msg(user, text("b")), msg(model, text("c")), msg(model, text("d"))},
			[]llm.Message{msg(user, text("a"), text("b")), msg(model, text("c"), text("d"))},
		},
		"results late, apart and in another order": {
			[]llm.Message{
				msg(model, call("x"), call("y")), msg(system, text("n")), msg(tool, result("y", "2")), msg(user, text("u")),
				msg(tool, result("x", "1")),
			},
			[]llm.Message{
				msg(model, call("x"), call("y")), msg(tool, result("x", "1"), result("y", "2")), msg(system, text("n")),
				msg(user, text("u")),
			},
		},
		"cut off": {
			[]llm.Message{msg(model, call("x"), call("y")), msg(tool, result("y", "2")), msg(model, text("on"))},
			[]llm.Message{msg(model, call("x"), call("y")), msg(tool, cutOff("x"), result("y", "2")), msg(model, text("on"))},
		},
		"strays": {
			[]llm.Message{
				msg(tool, result("z", "0")), msg(model, call("x")), msg(tool, result("x", "1"), result("x", "2")),
				msg(tool, result("w", "3")),
			},
			[]llm.Message{msg(model, call("x")), msg(tool, result("x", "1"))},
		},
		"the same id in two turns": {
			[]llm.Message{
				msg(model, call("x")), msg(tool, result("x", "1")), msg(model, call("x")), msg(tool, result("x", "2")),
			},
			[]llm.Message{
				msg(model, call("x")), msg(tool, result("x", "1")), msg(model, call("x")), msg(tool, result("x", "2")),
			},
		},
	} {
		if diff := cmp.Diff(c.want, llm.Normalize(c.in)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// A normal conversation is unchanged, every call has one result, no text is lost, and the input is not modified.
func TestNormalizeProperties(t *testing.T) {
	ids := rapid.SampledFrom([]string{"a", "b", "c"})
	block := rapid.Custom(func(t *rapid.T) llm.Block {
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			return text(rapid.SampledFrom([]string{"", "one", "two"}).Draw(t, "text"))
		case 1:
			return thinking(rapid.SampledFrom([]string{"", "hm"}).Draw(t, "thinking"))
		case 2:
			return call(ids.Draw(t, "call"))
		}
		return result(ids.Draw(t, "result"), "r")
	})
	message := rapid.Custom(func(t *rapid.T) llm.Message {
		role := rapid.SampledFrom([]llm.Role{llm.RoleUser, llm.RoleAssistant, llm.RoleTool, llm.RoleSystem}).Draw(t, "role")
		m := llm.Message{Role: role}
		for _, b := range rapid.SliceOfN(block, 0, 3).Draw(t, "blocks") {
			isCall, isResult := b.Call != nil, b.Result != nil
			if isCall == (role == llm.RoleAssistant) && isCall || isResult == (role == llm.RoleTool) && isResult ||
				!isCall && !isResult && role != llm.RoleTool {
				m.Blocks = append(m.Blocks, b)
			}
		}
		return m
	})
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.SliceOfN(message, 0, 12).Draw(t, "messages")
		before := words(in)
		out := llm.Normalize(in)
		if diff := cmp.Diff(out, llm.Normalize(out)); diff != "" {
			t.Fatalf("not stable: %s", diff)
		}
		if got, want := llm.Normal(in, 0), cmp.Equal(in, out, cmpopts.EquateEmpty()); got != want {
			t.Fatalf("Normal(%+v) = %t, want %t", in, got, want)
		}
		longer := slices.Concat(out, rapid.SliceOfN(message, 0, 3).Draw(t, "more"))
		for n := range len(out) + 1 {
			if got, want := llm.Normal(longer, n), llm.Normal(longer, 0); got != want {
				t.Fatalf("Normal(%+v, %d) = %t, want %t", longer, n, got, want)
			}
		}
		if after := words(out); after != before || words(in) != before {
			t.Fatalf("words %q became %q", before, after)
		}
		for i, m := range out {
			if len(m.Blocks) == 0 || i > 0 && out[i-1].Role == m.Role && m.Role != llm.RoleTool {
				t.Fatalf("message %d of %+v", i, out)
			}
			calls := 0
			for _, b := range m.Blocks {
				if b.Call != nil {
					calls++
				}
			}
			if calls > 0 && (i+1 == len(out) || out[i+1].Role != llm.RoleTool || len(out[i+1].Blocks) != calls) {
				t.Fatalf("turn %d of %+v is not answered", i, out)
			}
		}
	})
}

// words is the text of a conversation without the results.
func words(messages []llm.Message) string {
	var b strings.Builder
	for _, m := range messages {
		for _, block := range m.Blocks {
			if block.Text != nil {
				b.WriteString(block.Text.Text + " ")
			}
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}
