package compact

import (
	"maps"
	"slices"
	"unsafe"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/llm"
)

// Clone returns a conversation that changes independently. Both share their messages.
func (c *Conversation) Clone() *Conversation {
	out := *c
	out.messages, out.sources = slices.Clip(c.messages), slices.Clip(c.sources)
	out.tokens = slices.Clone(c.tokens) // pruning changes the elements
	out.full = maps.Clone(c.full)
	out.horizon.waiting = slices.Clone(c.horizon.waiting)
	return &out
}

// Continued returns the conversation of a later run: c and the messages that follow. It equals the conversation that
// [New] makes of all messages, pruned as far as c is. ok is false if the following messages change the form of c's;
// then New is needed.
//
// last is the conversation at the end of the run before, or nil. It began as c, and is given up: if equal messages
// follow, the result goes on in its memory, so that no message is copied and requests have [llm.Common] beginnings.
func (c *Conversation) Continued(
	messages []llm.Message, sources []contract.Source, last *Conversation,
) (out *Conversation, ok bool) {
	n := len(c.messages)
	if n == 0 || c.messages[n-1].Role == llm.RoleAssistant || answersBefore(messages) {
		return nil, false
	}
	tail := New(messages, sources)
	if len(tail.messages) > 0 && tail.messages[0].Role == c.messages[n-1].Role {
		return nil, false
	}
	out = c.Clone()
	taken := out.takeOver(last, tail)
	for i := taken; i < len(tail.messages); i++ {
		out.add(tail.messages[i], tail.sources[i])
	}
	out.prior = len(out.messages)
	return out, true
}

// takeOver appends the first messages of tail from last, as far as they are equal, without a copy. It returns their
// number.
func (c *Conversation) takeOver(last, tail *Conversation) int {
	n := len(c.messages)
	if last == nil || llm.Common(c.messages, last.messages) < n || !begins(last.sources, c.sources) {
		return 0
	}
	taken := 0
	for at := n; at < len(last.messages) && taken < len(tail.messages) &&
		llm.Equal(last.messages[at], tail.messages[taken]) &&
		slices.Equal(last.sources[at], tail.sources[taken]); at++ {
		taken++
	}
	for _, tokens := range tail.tokens[:taken] {
		c.tokens, c.total = append(c.tokens, tokens), c.total+tokens
	}
	c.messages, c.sources = last.messages[:n+taken], last.sources[:n+taken]
	if n+taken < len(last.messages) { // requests of the last run share what follows
		c.messages, c.sources = slices.Clip(c.messages), slices.Clip(c.sources)
	}
	return taken
}

// begins reports whether a list of sources begins with another, which is compared only if it is elsewhere in memory.
func begins(all, with [][]contract.Source) bool {
	return len(all) >= len(with) && (unsafe.SliceData(all) == unsafe.SliceData(with) ||
		slices.EqualFunc(all[:len(with)], with, slices.Equal))
}

// answersBefore reports whether results come before the first turn: they may answer an earlier one.
func answersBefore(messages []llm.Message) bool {
	for _, m := range messages {
		if slices.ContainsFunc(m.Blocks, func(b llm.Block) bool { return b.Result != nil }) {
			return true
		}
		if m.Role == llm.RoleAssistant && len(llm.Normalize([]llm.Message{m})) > 0 {
			return false
		}
	}
	return false
}

// Share replaces messages by equal ones at the same places of an earlier conversation, so that [llm.Message.Same] holds
// for them.
func (c *Conversation) Share(earlier *Conversation) {
	copied := false
	for i := llm.Common(c.messages, earlier.messages); i < min(len(c.messages), len(earlier.messages)); i++ {
		if c.messages[i].Same(earlier.messages[i]) || !llm.Equal(c.messages[i], earlier.messages[i]) {
			continue
		}
		if !copied {
			c.messages, copied = slices.Clone(c.messages), true // requests and clones share the list
		}
		c.messages[i] = earlier.messages[i]
	}
}
