package compact

import (
	"slices"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/llm"
)

// Conversation is a conversation in the form of [llm.Normalize]. Messages are never changed in place, so requests may
// share them.
type Conversation struct {
	messages []llm.Message
	sources  [][]contract.Source // per message
	tokens   []int64             // estimate per message
	total    int64               // sum of tokens
	prior    int                 // number of messages from before the run
	horizon  horizon
	full     map[int]llm.Message // unpruned forms of the messages with pruned results
}

// New returns a normalized conversation of messages with their sources. A message of the system role is the note of
// an earlier compaction.
func New(messages []llm.Message, sources []contract.Source) *Conversation {
	out, from := llm.NormalizeFrom(messages)
	c := &Conversation{}
	for i, m := range out {
		var of []contract.Source
		for _, j := range from[i] {
			if j < len(sources) && sources[j] != (contract.Source{}) {
				of = append(of, sources[j])
			}
		}
		c.add(m, slices.Compact(of))
	}
	c.prior = len(c.messages)
	return c
}

func (c *Conversation) add(m llm.Message, of []contract.Source) {
	n := MessageTokens(m)
	c.messages, c.sources, c.tokens = append(c.messages, m), append(c.sources, of), append(c.tokens, n)
	c.total += n
}

// Append adds a turn and its results, or a message of the operator. All come from one step.
func (c *Conversation) Append(from contract.Source, messages ...llm.Message) {
	var of []contract.Source
	if from != (contract.Source{}) {
		of = []contract.Source{from}
	}
	for _, m := range messages {
		c.add(m, of)
	}
}

// Messages returns the messages. The caller must not change them.
func (c *Conversation) Messages() []llm.Message { return slices.Clip(c.messages) }

// Len returns the number of messages.
func (c *Conversation) Len() int { return len(c.messages) }

// Prior returns the number of messages from before the run.
func (c *Conversation) Prior() int { return c.prior }

// Tokens returns the plain estimate of the messages.
func (c *Conversation) Tokens() int64 { return c.total }

// unit is a part of a conversation that is kept or dropped as a whole: the messages from from to before to.
type unit struct {
	from, to int
	tokens   int64
}

// units divides the conversation. A turn and its results are one unit; any other message is a unit.
func (c *Conversation) units() []unit {
	var out []unit
	for i := range c.messages {
		if c.messages[i].Role == llm.RoleTool && len(out) > 0 {
			last := &out[len(out)-1]
			last.to, last.tokens = i+1, last.tokens+c.tokens[i]
			continue
		}
		out = append(out, unit{from: i, to: i + 1, tokens: c.tokens[i]})
	}
	return out
}
