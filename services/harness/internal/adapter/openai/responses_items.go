package openai

import (
	"encoding/json"

	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/wire"
)

// The kinds of pieces in the conversations of both APIs.
const (
	messagePiece byte = iota // a message with the role Name
	callPiece
	resultPiece
	reasoningPiece
	turnPiece // text of an assistant's message in Chat Completions; its calls follow
	thinkingPiece
	literalPiece // Text is written unchanged
)

// items encodes a conversation for the Responses API.
type items struct {
	array
	origin string
}

// write encodes the conversation. Its last message may be a note, which the next request lacks.
func (c *items) write() {
	last := len(c.Messages) - 1
	for i := c.resume(last, ""); i <= last; i++ {
		m := c.Messages[i]
		if i == last {
			c.Settle()
		}
		switch m.Role {
		case llm.RoleAssistant:
			c.turn(m.Blocks)
		case llm.RoleTool:
			for _, b := range m.Blocks {
				c.element(wire.Piece{Kind: resultPiece, ID: b.Result.CallID, Text: b.Result.Content})
			}
		case llm.RoleSystem:
			c.element(wire.Piece{Kind: messagePiece, Name: "system", Text: texts(m.Blocks)})
		default:
			c.element(wire.Piece{Kind: messagePiece, Name: "user", Text: texts(m.Blocks)})
		}
		c.ended(i + 1)
	}
}

// turn encodes a turn of the model up to its last text or call, because the API refuses reasoning without output.
// Only reasoning items carry the provider's ids: with ids on other items the API requires every item that belonged
// together.
func (c *items) turn(blocks []llm.Block) {
	for _, b := range blocks[:spoken(blocks)] {
		switch {
		case b.Text != nil:
			c.element(wire.Piece{Kind: messagePiece, Name: "assistant", Text: b.Text.Text})
		case b.Call != nil:
			c.element(wire.Piece{Kind: callPiece, ID: b.Call.ID, Name: c.Names.Encode(b.Call.Name), Text: b.Call.Input})
		case b.Thinking != nil && b.Thinking.Driver == Name:
			c.element(wire.Piece{Kind: reasoningPiece, Data: string(b.Thinking.Opaque)})
		}
	}
}

// spoken returns the number of blocks up to the last text or call.
func spoken(blocks []llm.Block) int {
	n := len(blocks)
	for n > 0 && blocks[n-1].Text == nil && blocks[n-1].Call == nil {
		n--
	}
	return n
}

// encodeItem returns an encoder that encodes pieces as the SDK does.
func encodeItem(origin string) wire.Encoder {
	return func(dst []byte, p wire.Piece) []byte {
		switch p.Kind {
		case callPiece:
			dst = wire.AppendString(append(dst, `{"arguments":`...), string(wire.ObjectInput(p.Text)))
			dst = wire.AppendString(append(dst, `,"call_id":`...), wire.CallID(p.ID))
			dst = wire.AppendString(append(dst, `,"name":`...), p.Name)
			return append(dst, `,"type":"function_call"}`...)
		case resultPiece:
			dst = wire.AppendString(append(dst, `{"output":`...), p.Text)
			dst = wire.AppendString(append(dst, `,"call_id":`...), wire.CallID(p.ID))
			return append(dst, `,"type":"function_call_output"}`...)
		case reasoningPiece:
			return append(dst, reasoningItem([]byte(p.Data), origin)...)
		}
		return appendMessage(dst, p)
	}
}

func appendMessage(dst []byte, p wire.Piece) []byte {
	dst = wire.AppendString(append(dst, `{"content":`...), p.Text)
	return append(append(append(dst, `,"role":"`...), p.Name...), `"}`...)
}

// reasoningItem returns the item as received, nil if it has another origin.
func reasoningItem(data []byte, origin string) []byte {
	o, ok := readOpaque(data, origin)
	if !ok || o.Encrypted == "" {
		return nil
	}
	summary := o.Summary
	if len(summary) == 0 {
		summary = json.RawMessage("[]")
	}
	raw, err := json.Marshal(struct {
		Type      string          `json:"type"`
		ID        string          `json:"id,omitempty"`
		Summary   json.RawMessage `json:"summary"`
		Encrypted string          `json:"encrypted_content"`
	}{"reasoning", o.ID, summary, o.Encrypted})
	if err != nil {
		return nil
	}
	return raw
}
