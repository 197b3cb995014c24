package contract_test

import (
	"testing"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/llm"
)

// Any difference in a message changes the chain, and so does the place of a border between fields or blocks; only a
// message that is split between its blocks has the same chain.
func TestChain(t *testing.T) {
	t.Parallel()
	text := func(s string) llm.Block { return llm.Block{Text: &llm.Text{Text: s}} }
	of := func(role llm.Role, blocks ...llm.Block) llm.Message { return llm.Message{Role: role, Blocks: blocks} }
	thinking := func(a, b, c string) llm.Message {
		return of(llm.RoleAssistant, llm.Block{Thinking: &llm.Thinking{Text: a, Opaque: []byte(b), Driver: c}})
	}
	call := func(a, b, c string) llm.Message {
		return of(llm.RoleAssistant, llm.Block{Call: &llm.ToolCall{ID: a, Name: b, Input: c}})
	}
	result := func(a, b, c string, failed bool) llm.Message {
		return of(llm.RoleTool, llm.Block{Result: &llm.ToolResult{CallID: a, Name: b, Content: c, IsError: failed}})
	}
	at := contract.Source{MessageID: "m", Step: 1}
	seen := map[string]int{}
	for i, c := range []contract.Chain{
		{},
		contract.Chain{}.With(of(llm.RoleUser, text("ab")), at, false),
		contract.Chain{}.With(of(llm.RoleUser, text("a"), text("b")), at, false),
		contract.Chain{}.With(of(llm.RoleUser, text("")), at, false),
		contract.Chain{}.With(of(llm.RoleSystem, text("ab")), at, false),
		contract.Chain{}.With(of(llm.RoleUser, text("ab")), at, true),
		contract.Chain{}.With(of(llm.RoleUser, text("ab")), contract.Source{MessageID: "m", Step: 2}, false),
		contract.Chain{}.With(of(llm.RoleUser, text("ab")), contract.Source{MessageID: "n", Step: 1}, false),
		contract.Chain{}.With(of(llm.RoleUser, text("ab")), contract.Source{}, false),
		contract.Chain{}.With(thinking("a", "b", "c"), at, false), contract.Chain{}.With(thinking("ab", "", "c"), at, false),
		contract.Chain{}.With(thinking("a", "bc", ""), at, false),
		contract.Chain{}.With(call("a", "b", "c"), at, false), contract.Chain{}.With(call("ab", "", "c"), at, false),
		contract.Chain{}.With(result("a", "b", "c", false), at, false),
		contract.Chain{}.With(result("a", "b", "c", true), at, false),
		contract.Chain{}.With(result("a", "bc", "", false), at, false),
	} {
		if before, ok := seen[c.String()]; ok {
			t.Errorf("cases %d and %d have the same chain", before, i)
		}
		seen[c.String()] = i
	}
	whole := contract.Chain{}.With(of(llm.RoleTool, text("a"), text("b")), at, true)
	split := contract.Chain{}.With(of(llm.RoleTool, text("a")), at, true).With(of(llm.RoleTool, text("b")), at, true)
	if whole != split {
		t.Error("a message and its parts have different chains")
	}
}
