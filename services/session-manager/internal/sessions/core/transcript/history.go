package transcript

import (
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
)

// Stored is a kept message as far as a model is concerned.
type Stored struct {
	ID   string
	Role llm.Role // user, assistant or system
	// Content is the message's text, used where Blocks is nil.
	Content string
	// Blocks is the message in full, nil for a message that is one text.
	Blocks []llm.Block
}

// Message is a message of a conversation with the stored message it comes from.
type Message struct {
	llm.Message
	ID string
}

// History returns stored messages, which are in order, as the conversation a model is given. A run's message becomes turns
// and results again; thinking stays with its driver's data; every call has a result. Without toolResults calls and results
// of earlier runs are left out, as pairs. Messages that would be empty are left out.
func History(stored []Stored, toolResults bool) []Message {
	out := make([]Message, 0, len(stored))
	for _, m := range stored {
		blocks := m.Blocks
		if blocks == nil && m.Content != "" {
			blocks = []llm.Block{{Text: &llm.Text{Text: m.Content}}}
		}
		if m.Role == llm.RoleAssistant {
			if toolResults {
				blocks = Repair(blocks, fault.Interrupted)
			} else {
				blocks = withoutTools(blocks)
			}
		}
		out = append(out, turns(m, blocks)...)
	}
	return out
}

// turns cuts a message's blocks where results begin and where they end.
func turns(m Stored, blocks []llm.Block) []Message {
	var out []Message
	for _, b := range blocks {
		role := m.Role
		if b.Result != nil {
			role = llm.RoleTool
		}
		if n := len(out); n == 0 || out[n-1].Role != role {
			out = append(out, Message{Message: llm.Message{Role: role}, ID: m.ID})
		}
		last := &out[len(out)-1]
		last.Blocks = append(last.Blocks, b)
	}
	return out
}

// withoutTools leaves the text of a run. Thinking goes with the calls it led to: without them some providers refuse it.
func withoutTools(blocks []llm.Block) []llm.Block {
	var out []llm.Block
	for _, b := range blocks {
		if b.Text != nil {
			out = append(out, b)
		}
	}
	return out
}
