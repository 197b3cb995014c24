package transcript

import (
	"slices"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
)

// Stored is a stored message, reduced to the fields that a model's conversation needs.
type Stored struct {
	ID   string
	Role llm.Role // user, assistant or system
	// Content is the message's text, used where Blocks is nil.
	Content string
	// Blocks is the full message, nil for a message that is one text.
	Blocks []llm.Block
	// Spans are the parts that compactions superseded. Summary is the text that replaces all superseded parts of the
	// conversation, SupersededTurns the number of the model's turns in them; both are set on the first message with
	// spans.
	Spans           []contract.Span
	Summary         string
	SupersededTurns int
	// AlwaysKeep says that compactions must not supersede it.
	AlwaysKeep bool
	// Running says that it holds the complete steps of an active run.
	Running bool
	// AfterStep is the step after which a steering message was delivered; the run's message follows it. It is 0 for
	// any other message.
	AfterStep int
}

// Message is a message of a model's conversation with the stored message that it comes from.
type Message struct {
	llm.Message
	contract.Source
	// AlwaysKeep says that compactions must not supersede its stored message.
	AlwaysKeep bool
}

// History returns stored messages, given in order, as a model's conversation. A run's message becomes turns and
// results again; thinking keeps its driver's data; every call has a result. Without toolResults the calls and
// results of earlier runs are omitted, as pairs. Superseded parts are omitted; the summary takes the place of the
// first. Empty messages are omitted. A steering message follows the results of its step; without toolResults it
// precedes the texts of its run, unless that is active.
func History(stored []Stored, toolResults bool) []Message {
	h := history{toolResults: toolResults, out: make([]Message, 0, len(stored))}
	for _, m := range stored {
		h.add(m)
	}
	return h.all()
}

// history builds a model's conversation.
type history struct {
	toolResults bool
	out         []Message
	steers      []steer // of the run with the next message
}

// steer is a steering message with its step.
type steer struct {
	after int
	parts []Message
}

func (h *history) add(m Stored) {
	parts := m.parts(h.toolResults)
	if m.AfterStep > 0 && m.Role == llm.RoleUser {
		h.steers = append(h.steers, steer{m.AfterStep, parts})
		return
	}
	if m.Role != llm.RoleAssistant || !h.toolResults && !m.Running {
		h.join(nil)
	}
	h.join(parts)
}

// all returns the conversation.
func (h *history) all() []Message {
	h.join(nil)
	return h.out
}

// join adds the parts of a run, with each steering message before the first part of a later step.
func (h *history) join(parts []Message) {
	for _, s := range h.steers {
		later := slices.IndexFunc(parts, func(p Message) bool { return p.Step > s.after })
		if later < 0 {
			later = len(parts)
		}
		h.append(parts[:later])
		h.append(s.parts)
		parts = parts[later:]
	}
	h.append(parts)
	h.steers = nil
}

func (h *history) append(parts []Message) {
	for _, p := range parts {
		if len(p.Blocks) > 0 {
			h.out = append(h.out, p)
		}
	}
}

// parts returns a stored message as messages of a conversation.
func (m Stored) parts(toolResults bool) []Message {
	blocks := m.Blocks
	if blocks == nil && m.Content != "" {
		blocks = []llm.Block{{Text: &llm.Text{Text: m.Content}}}
	}
	var parts []Message
	if m.Role != llm.RoleAssistant {
		whole := Message{Message: llm.Message{Role: m.Role, Blocks: blocks}, Source: m.source(0)}
		parts = m.without([]Message{whole})
	} else if parts = m.without(turns(m, Repair(blocks, fault.Interrupted))); !toolResults && !m.Running {
		parts = spoken(m, parts)
	}
	for i := range parts {
		parts[i].AlwaysKeep = m.AlwaysKeep
	}
	return parts
}

// SupersededTurns returns the number of the model's turns that compactions superseded.
func SupersededTurns(stored []Stored) (n int) {
	for _, m := range stored {
		n += m.SupersededTurns
	}
	return n
}

func (m Stored) source(step int) contract.Source { return contract.Source{MessageID: m.ID, Step: step} }

// turns splits a run's message into turns and results. A turn and its results have the same step.
func turns(m Stored, blocks []llm.Block) []Message {
	var out []Message
	step := 0
	for _, b := range blocks {
		role := m.Role
		if b.Result != nil {
			role = llm.RoleTool
		}
		if n := len(out); n == 0 || out[n-1].Role != role {
			if role != llm.RoleTool {
				step++
			}
			out = append(out, Message{Message: llm.Message{Role: role}, Source: m.source(max(step, 1))})
		}
		last := &out[len(out)-1]
		last.Blocks = append(last.Blocks, b)
	}
	return out
}

// without omits the superseded parts; the summary takes the place of the first.
func (m Stored) without(parts []Message) []Message {
	if len(m.Spans) == 0 {
		return parts
	}
	out := make([]Message, 0, len(parts))
	told := m.Summary == ""
	for _, p := range parts {
		if !slices.ContainsFunc(m.Spans, func(s contract.Span) bool { return s.Covers(p.Step) }) {
			out = append(out, p)
			continue
		}
		if !told {
			told = true
			out = append(out, Message{Message: llm.Message{
				Role: llm.RoleSystem, Blocks: []llm.Block{{Text: &llm.Text{Text: m.Summary}}},
			}})
		}
	}
	return out
}

// spoken joins the texts of a run into one message. It omits thinking together with calls: some providers refuse
// thinking without the calls that followed it.
func spoken(m Stored, parts []Message) []Message {
	said := Message{Message: llm.Message{Role: m.Role}, Source: m.source(0)}
	var out []Message
	for _, p := range parts {
		if p.Role == llm.RoleSystem {
			out = append(out, p)
			continue
		}
		for _, b := range p.Blocks {
			if b.Text != nil {
				said.Blocks = append(said.Blocks, b)
			}
		}
	}
	return append(out, said)
}
