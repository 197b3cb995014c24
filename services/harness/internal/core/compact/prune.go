package compact

import (
	"fmt"
	"maps"
	"slices"

	"kaged.dev/pkg/llm"
)

// Pruning is the set of rules for replacing tool results by a notice.
type Pruning struct {
	// Protect is the number of tokens of the newest results that are kept.
	Protect int64
	// Minimum is the least number of saved tokens for which results are pruned.
	Minimum int64
	// Protected reports whether the results of a tool are never pruned.
	Protected func(tool string) bool
}

// result is a tool result that may be pruned later.
type result struct {
	message, block int
	tokens, saving int64
	upTo           int64 // tokens of all results up to and with this one
}

// horizon is the state of pruning: the messages up to next have been examined.
type horizon struct {
	next    int      // first unexamined message
	waiting []result // oldest first
	due     int      // number of results in waiting outside of the protected tokens
	savings int64    // tokens saved by pruning those
	sum     int64    // tokens of all results
}

// notice returns the replacement of a pruned result.
func notice(tokens int64) string { return fmt.Sprintf("[Pruned — %d tokens]", tokens) }

// Prune replaces tool results by a notice (`spec/agent-harness.md`, Tool output pruning). It returns their number and
// the saved tokens. It examines each message once, in order. The decision about a result depends on the messages up
// to the step at which enough results fell out of the protected tokens, and on no later message. So a conversation
// and its continuation are pruned alike, and a request keeps the prefix of the request before unless results are
// pruned in between. Results of the last step are kept: no model has read them yet.
func (c *Conversation) Prune(p Pruning) (count int, saved int64) {
	h := &c.horizon
	for ; h.next < len(c.messages); h.next++ {
		if c.messages[h.next].Role != llm.RoleTool {
			continue
		}
		h.take(h.next, c.messages[h.next].Blocks, p)
		for h.due < len(h.waiting) && h.waiting[h.due].message < h.next && h.sum-h.waiting[h.due].upTo >= p.Protect {
			h.savings += h.waiting[h.due].saving
			h.due++
		}
		if h.due == 0 || h.savings < p.Minimum {
			continue
		}
		c.messages = slices.Clone(c.messages) // earlier requests share the list
		for _, r := range h.waiting[:h.due] {
			c.replace(r)
		}
		count, saved = count+h.due, saved+h.savings
		h.waiting, h.due, h.savings = slices.Delete(h.waiting, 0, h.due), 0, 0
	}
	return count, saved
}

// take adds the results of a message. A result that the notice would not shorten is never pruned.
func (h *horizon) take(message int, blocks []llm.Block, p Pruning) {
	for i, b := range blocks {
		if b.Result == nil {
			continue
		}
		tokens := Tokens(b.Result.Content)
		h.sum += tokens
		if saving := tokens - Tokens(notice(tokens)); saving > 0 && !p.Protected(b.Result.Name) {
			r := result{message: message, block: i, tokens: tokens, saving: saving, upTo: h.sum}
			h.waiting = append(h.waiting, r)
		}
	}
}

// replace replaces a result by the notice. It copies the message, because earlier requests share it.
func (c *Conversation) replace(r result) {
	m := c.messages[r.message]
	if _, ok := c.full[r.message]; !ok {
		if c.full == nil {
			c.full = map[int]llm.Message{}
		}
		c.full[r.message] = m
	}
	m.Blocks = slices.Clone(m.Blocks)
	shown := *m.Blocks[r.block].Result
	shown.Content = notice(r.tokens)
	m.Blocks[r.block] = llm.Block{Result: &shown}
	c.messages[r.message] = m
	c.tokens[r.message] -= r.saving
	c.total -= r.saving
}

// whole returns a message with its results unpruned.
func (c *Conversation) whole(i int) llm.Message {
	if m, ok := c.full[i]; ok {
		return m
	}
	return c.messages[i]
}

// Pruned returns the ids of the stored messages with pruned results.
func (c *Conversation) Pruned() (ids []string) {
	for _, i := range slices.Sorted(maps.Keys(c.full)) {
		for _, s := range c.sources[i] {
			if len(ids) == 0 || ids[len(ids)-1] != s.MessageID {
				ids = append(ids, s.MessageID)
			}
		}
	}
	return ids
}
