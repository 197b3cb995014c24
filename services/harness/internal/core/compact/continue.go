package compact

import (
	"maps"
	"slices"

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
func (c *Conversation) Continued(messages []llm.Message, sources []contract.Source) (out *Conversation, ok bool) {
	n := len(c.messages)
	if n == 0 || c.messages[n-1].Role == llm.RoleAssistant || answersBefore(messages) {
		return nil, false
	}
	tail := New(messages, sources)
	if len(tail.messages) > 0 && tail.messages[0].Role == c.messages[n-1].Role {
		return nil, false
	}
	out = c.Clone()
	for i, m := range tail.messages {
		out.add(m, tail.sources[i])
	}
	out.prior = len(out.messages)
	return out, true
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
	for i := range min(len(c.messages), len(earlier.messages)) {
		if c.messages[i].Same(earlier.messages[i]) || !llm.Equal(c.messages[i], earlier.messages[i]) {
			continue
		}
		if !copied {
			c.messages, copied = slices.Clone(c.messages), true // requests and clones share the list
		}
		c.messages[i] = earlier.messages[i]
	}
}
