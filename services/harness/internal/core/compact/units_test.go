package compact

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/llm"
)

// drawMessages returns messages of any roles and blocks, also such that no provider takes: calls without results,
// results without calls, empty texts, notes anywhere.
func drawMessages(t *rapid.T) ([]llm.Message, []contract.Source) {
	role := rapid.SampledFrom([]llm.Role{llm.RoleUser, llm.RoleAssistant, llm.RoleTool, llm.RoleSystem})
	ids := 0 // of calls so far
	var messages []llm.Message
	var sources []contract.Source
	for range rapid.IntRange(0, 30).Draw(t, "messages") {
		m := llm.Message{Role: role.Draw(t, "role")}
		for range rapid.IntRange(0, 3).Draw(t, "blocks") {
			text := strings.Repeat(rapid.SampledFrom([]string{"", "word ", "KEEP ", "我", "- "}).Draw(t, "text"),
				rapid.IntRange(0, 40).Draw(t, "times"))
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				m.Blocks = append(m.Blocks, llm.Block{Text: &llm.Text{Text: text}})
			case 1:
				m.Blocks = append(m.Blocks, llm.Block{Thinking: &llm.Thinking{Text: text}})
			case 2:
				if m.Role == llm.RoleAssistant {
					m.Blocks = append(m.Blocks, llm.Block{Call: &llm.ToolCall{ID: fmt.Sprint(ids), Name: "f", Input: "{}"}})
					ids++
				}
			case 3:
				of := fmt.Sprint(rapid.IntRange(0, ids).Draw(t, "of"))
				m.Blocks = append(m.Blocks, llm.Block{Result: &llm.ToolResult{CallID: of, Content: text}})
			}
		}
		messages = append(messages, m)
		sources = append(sources, contract.Source{
			MessageID: rapid.SampledFrom([]string{"", "m", "n"}).Draw(t, "message"), Step: rapid.IntRange(0, 5).Draw(t, "step"),
		})
	}
	return messages, sources
}

// The units of any conversation follow each other without a gap, none begins with a result, and their estimates add up
// to the conversation's.
func TestUnits(t *testing.T) { rapid.Check(t, unitsHold) }

// FuzzUnits checks the property of TestUnits.
func FuzzUnits(f *testing.F) { f.Fuzz(rapid.MakeFuzz(unitsHold)) }

func unitsHold(t *rapid.T) {
	c := New(drawMessages(t))
	if rapid.Bool().Draw(t, "prune") {
		c.Prune(Pruning{Minimum: 1, Protected: func(string) bool { return false }})
	}
	checkUnits(t, c)
}

func checkUnits(t *rapid.T, c *Conversation) {
	next, total := 0, int64(0)
	for i, u := range c.units() {
		if u.from != next || u.to <= u.from {
			t.Fatalf("unit %d is from %d to %d, want from %d", i, u.from, u.to, next)
		}
		if c.messages[u.from].Role == llm.RoleTool {
			t.Fatalf("unit %d begins with a result", i)
		}
		open := map[string]bool{}
		for _, m := range c.messages[u.from:u.to] {
			for _, b := range m.Blocks {
				switch {
				case b.Call != nil:
					open[b.Call.ID] = true
				case b.Result != nil:
					if !open[b.Result.CallID] {
						t.Fatalf("unit %d has a result of %s and not its call", i, b.Result.CallID)
					}
					delete(open, b.Result.CallID)
				}
			}
		}
		if len(open) > 0 {
			t.Fatalf("unit %d has calls without results: %v", i, open)
		}
		next, total = u.to, total+u.tokens
	}
	if next != len(c.messages) || total != c.total {
		t.Fatalf("units of %d messages and %d tokens, want %d and %d", next, total, len(c.messages), c.total)
	}
}

// A plan of any conversation, with any text, drops whole units in their order, none of them kept, and the result is
// shorter or the same conversation. A plan by the places of another one is the same plan.
func TestPlans(t *testing.T) { rapid.Check(t, plansHold) }

// FuzzPlan checks the property of TestPlans.
func FuzzPlan(f *testing.F) { f.Fuzz(rapid.MakeFuzz(plansHold)) }

func plansHold(t *rapid.T) {
	c := New(drawMessages(t))
	rules := Pruning{
		Protect: int64(rapid.IntRange(0, 100).Draw(t, "protect")), Minimum: int64(rapid.IntRange(1, 100).Draw(t, "minimum")),
		Protected: func(string) bool { return false },
	}
	c.Prune(rules)
	keep := func(unit []llm.Message, _ []contract.Source) bool {
		return slices.ContainsFunc(unit, func(m llm.Message) bool {
			return slices.ContainsFunc(m.Blocks, func(b llm.Block) bool {
				return b.Text != nil && strings.Contains(b.Text.Text, "KEEP")
			})
		})
	}
	limit, extra := int64(rapid.IntRange(-100, 800).Draw(t, "limit")), int64(rapid.IntRange(0, 200).Draw(t, "extra"))
	ledger := rapid.SampledFrom([]string{"", ledgerHead + "\nDecisions:\n- [1] keep it"}).Draw(t, "ledger")
	p := c.Plan(limit, extra, keep, ledger)
	for i, u := range p.units {
		if p.drop[i] && (keep(c.messages[u.from:u.to], nil) || c.isNote(u.from)) {
			t.Fatalf("unit %d is kept and is dropped", i)
		}
	}
	same, ok := c.PlanOf(p.Places(), keep, ledger)
	if !ok || !slices.Equal(same.drop, p.drop) || same.Note() != p.Note() {
		t.Fatalf("the plan by places %v drops %v, want %v", p.Places(), same.drop, p.drop)
	}
	note := p.Note()
	if rapid.Bool().Draw(t, "summarized") {
		note = p.Summarized(rapid.String().Draw(t, "summary"))
	}
	before := fmt.Sprint(c.messages)
	out, gone := p.Apply(note)
	if fmt.Sprint(c.messages) != before {
		t.Fatal("the plan changed the conversation")
	}
	checkUnits(t, out)
	if out == c {
		if gone.Messages != 0 || len(gone.Spans) != 0 {
			t.Fatalf("the same conversation, and %d messages in %v dropped", gone.Messages, gone.Spans)
		}
		return
	}
	out.Prune(rules)
	if out.Tokens() >= c.Tokens() {
		t.Fatalf("%d tokens became %d", c.Tokens(), out.Tokens())
	}
	if n := notes(out); n != 1 {
		t.Fatalf("%d notes", n)
	}
}

func notes(c *Conversation) (n int) {
	for i := range c.messages {
		if c.isNote(i) {
			n++
		}
	}
	return n
}
