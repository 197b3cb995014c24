package compact_test

import (
	"fmt"
	"strings"
	"testing"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/llm"
	"kaged.dev/services/harness/internal/core/compact"
)

// long returns a conversation of 5,000 messages and 20 MB: a task, and 2,500 turns with a result of 8 KB each.
func long() ([]llm.Message, []contract.Source) {
	messages := []llm.Message{said(llm.RoleUser, "the task")}
	sources := []contract.Source{{MessageID: "m"}}
	line := "func (c *Conversation) Plan(limit, extra int64) *Plan { return c.choose(limit - extra) } // 0x1f\n"
	for i := range 2500 {
		turn := step(fmt.Sprint("c", i), fmt.Sprint(i)+strings.Repeat(line, 8000/len(line)))
		messages = append(messages, turn...)
		for range turn {
			sources = append(sources, contract.Source{MessageID: "r", Step: i + 1})
		}
	}
	return messages, sources
}

func never(string) bool { return false }

// BenchmarkEstimateWarm measures a step of a long conversation: the new turn, pruning, and the estimate. Target: 5
// ms.
func BenchmarkEstimateWarm(b *testing.B) {
	messages, sources := long()
	c := compact.New(messages, sources)
	rules := compact.Pruning{Protect: 40_000, Minimum: 20_000, Protected: never}
	c.Prune(rules)
	turn := step("new", strings.Repeat("word ", 1000))
	b.ResetTimer()
	for i := range b.N {
		c.Append(contract.Source{MessageID: "r", Step: 3000 + i}, turn...)
		c.Prune(rules)
		if c.Tokens() == 0 {
			b.Fatal("no estimate")
		}
	}
}

// BenchmarkPlan measures a compaction of a long conversation: the choice of units, and the conversation without them.
// Target: 50 ms.
func BenchmarkPlan(b *testing.B) {
	messages, sources := long()
	c := compact.New(messages, sources)
	b.ResetTimer()
	for range b.N {
		p := c.Plan(c.Tokens()/2, 0, nil, "")
		if out, d := p.Apply(p.Note()); d.Messages == 0 || out.Tokens() > c.Tokens()/2+1000 {
			b.Fatal("nothing gave way")
		}
	}
}

// BenchmarkEstimateCold measures the first estimate of a long conversation, at the beginning of a run.
func BenchmarkEstimateCold(b *testing.B) {
	messages, sources := long()
	b.SetBytes(20 << 20)
	for range b.N {
		compact.New(messages, sources)
	}
}

// BenchmarkCachedShare measures the share of tokens that a provider's prefix cache holds, over 300 steps in a window
// of 32,000 tokens, beside the share for a window that slides at each call.
func BenchmarkCachedShare(b *testing.B) {
	for name, slides := range map[string]bool{"kaged": false, "sliding": true} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				b.ReportMetric(100*cachedShare(slides), "%cached")
			}
		})
	}
}

func cachedShare(slides bool) float64 {
	const window = 32_000
	c := compact.New([]llm.Message{said(llm.RoleUser, "the task")}, nil)
	rules := compact.Pruning{Protect: 8_000, Minimum: 4_000, Protected: never}
	var last []llm.Message
	var cached, all int64
	for i := range 300 {
		c.Append(contract.Source{MessageID: "r", Step: i + 1}, step(fmt.Sprint("c", i), strings.Repeat("word ", 700))...)
		switch {
		case slides:
			c, _ = c.Drop(window*6/10, nil, "")
		default:
			c.Prune(rules)
			if c.Tokens() > window*85/100 {
				c, _ = c.Drop(window*6/10, nil, "")
			}
		}
		now := c.Messages()
		same := true
		for j, m := range now {
			n := compact.MessageTokens(m)
			all += n
			if same = same && j < len(last) && equal(m, last[j]); same {
				cached += n
			}
		}
		last = append([]llm.Message(nil), now...)
	}
	return float64(cached) / float64(all)
}

func equal(a, b llm.Message) bool {
	return a.Role == b.Role && strings.Join(everyWord(a), "|") == strings.Join(everyWord(b), "|")
}

// everyWord returns the texts, calls and results of a message.
func everyWord(m llm.Message) (out []string) {
	for _, b := range m.Blocks {
		switch {
		case b.Text != nil:
			out = append(out, b.Text.Text)
		case b.Call != nil:
			out = append(out, b.Call.ID)
		case b.Result != nil:
			out = append(out, b.Result.CallID, b.Result.Content)
		}
	}
	return out
}
