package loop

import (
	"slices"
	"unique"

	"kaged.dev/pkg/llm"
)

// snapshot is a copy of a request as a model is given it. It tells whether a later request is the same or begins the
// same. Strings cannot change, so a copy shares their memory. Bytes are copied; equal schemas, which sessions have in
// common, are one copy. The zero value is the snapshot of no request.
type snapshot struct {
	taken     bool
	maxOutput int
	cacheKey  string
	note      string
	system    []string
	tools     []toolCopy
	messages  []messageCopy
	list      []llm.Message // the conversation of messages
}

type toolCopy struct {
	name, description string
	schema            unique.Handle[string]
}

type messageCopy struct {
	of     llm.Message // the message itself
	role   llm.Role
	blocks []blockCopy
	upTo   int64 // size of the conversation up to and with the message, see [messageSize]
}

// blockCopy holds the texts of a block in the order of its fields.
type blockCopy struct {
	kind    blockKind
	failed  bool
	a, b, c string
}

type blockKind int

const (
	emptyBlock blockKind = iota
	textBlock
	thinkingBlock
	callBlock
	resultBlock
)

// take makes s the snapshot of req. It reports whether req begins as the previous snapshot, whose note is ignored.
func (s *snapshot) take(req *llm.Request) (continues bool) {
	continues = s.taken && s.sameParameters(req)
	if !continues {
		s.taken, s.maxOutput, s.cacheKey = true, req.MaxOutputTokens, req.CacheKey
		s.system = slices.Clone(req.System)
		s.tools = make([]toolCopy, len(req.Tools))
		for i, t := range req.Tools {
			s.tools[i] = toolCopy{t.Name, t.Description, unique.Make(string(t.Schema))}
		}
	}
	s.note = req.Note
	same := s.unchanged(req.Messages)
	s.list = req.Messages
	continues = continues && same == len(s.messages)
	s.messages = slices.Grow(s.messages[:same], len(req.Messages)-same)
	for _, m := range req.Messages[same:] {
		copied := copyMessage(m)
		copied.upTo = s.conversationSize() + messageSize(m)
		s.messages = append(s.messages, copied)
	}
	return continues
}

// conversationSize returns the size of the messages, without reading them again.
func (s *snapshot) conversationSize() int64 {
	if n := len(s.messages); n > 0 {
		return s.messages[n-1].upTo
	}
	return 0
}

// matches reports whether req is the request of the snapshot.
func (s *snapshot) matches(req *llm.Request) bool {
	return s.taken && s.sameParameters(req) && s.note == req.Note &&
		slices.EqualFunc(s.messages, req.Messages, func(c messageCopy, m llm.Message) bool { return c.matches(&m) })
}

// sameParameters compares all but the messages and the note.
func (s *snapshot) sameParameters(req *llm.Request) bool {
	return s.maxOutput == req.MaxOutputTokens && s.cacheKey == req.CacheKey && slices.Equal(s.system, req.System) &&
		slices.EqualFunc(s.tools, req.Tools, func(c toolCopy, t llm.Tool) bool {
			return c.name == t.Name && c.description == t.Description && c.schema.Value() == string(t.Schema)
		})
}

// unchanged returns how many messages the snapshot and a conversation have in common at the beginning.
func (s *snapshot) unchanged(messages []llm.Message) int {
	known := llm.Common(s.list, messages)
	n := min(len(s.messages), len(messages))
	for i := known; i < n; i++ {
		if !s.messages[i].unchanged(&messages[i]) {
			return i
		}
	}
	return n
}

// unchanged reports whether m is the message, or equal to it. Only an equal message with other blocks is compared.
func (c *messageCopy) unchanged(m *llm.Message) bool {
	if c.of.Same(*m) {
		return true
	}
	equal := c.matches(m)
	if equal {
		c.of = *m
	}
	return equal
}

// matches compares the contents, so that it finds a message that was changed in place.
func (c *messageCopy) matches(m *llm.Message) bool {
	if c.role != m.Role || len(c.blocks) != len(m.Blocks) {
		return false
	}
	for i := range c.blocks {
		if !c.blocks[i].matches(&m.Blocks[i]) {
			return false
		}
	}
	return true
}

func (c *blockCopy) matches(b *llm.Block) bool {
	switch {
	case b.Text != nil:
		return c.kind == textBlock && c.a == b.Text.Text
	case b.Thinking != nil:
		t := b.Thinking
		return c.kind == thinkingBlock && c.a == t.Text && c.b == string(t.Opaque) && c.c == t.Driver
	case b.Call != nil:
		t := b.Call
		return c.kind == callBlock && c.a == t.ID && c.b == t.Name && c.c == t.Input
	case b.Result != nil:
		r := b.Result
		return c.kind == resultBlock && c.a == r.CallID && c.b == r.Name && c.c == r.Content && c.failed == r.IsError
	}
	return c.kind == emptyBlock
}

func copyMessage(m llm.Message) messageCopy {
	c := messageCopy{of: m, role: m.Role, blocks: make([]blockCopy, len(m.Blocks))}
	for i, b := range m.Blocks {
		switch {
		case b.Text != nil:
			c.blocks[i] = blockCopy{kind: textBlock, a: b.Text.Text}
		case b.Thinking != nil:
			t := b.Thinking
			c.blocks[i] = blockCopy{kind: thinkingBlock, a: t.Text, b: string(t.Opaque), c: t.Driver}
		case b.Call != nil:
			c.blocks[i] = blockCopy{kind: callBlock, a: b.Call.ID, b: b.Call.Name, c: b.Call.Input}
		case b.Result != nil:
			r := b.Result
			c.blocks[i] = blockCopy{kind: resultBlock, a: r.CallID, b: r.Name, c: r.Content, failed: r.IsError}
		}
	}
	return c
}
