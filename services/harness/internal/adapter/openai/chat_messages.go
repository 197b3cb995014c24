package openai

import (
	"strconv"
	"strings"

	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/wire"
)

// chat encodes a conversation for the Chat Completions API.
type chat struct {
	array
	origin   string
	official bool
}

// write encodes the system prompt and the conversation. Only OpenAI is known to accept a system message after the first
// message: the templates of many models refuse it, or refuse two user messages in a row. The last message may be a
// note, which the next request lacks.
func (c *chat) write(system string) {
	if system != "" {
		c.said("system", system)
	}
	var user []string
	flush := func() {
		if len(user) > 0 {
			c.said("user", strings.Join(user, "\n\n"))
			user = nil
		}
	}
	last, asked := len(c.Messages)-1, lastQuestion(c.Messages)
	// The thinking of a turn is left out after the next question.
	for i := c.resume(last, system+"\x00"+strconv.Itoa(asked)); i <= last; i++ {
		m := c.Messages[i]
		if i == last {
			c.Settle()
		}
		if m.Role == llm.RoleUser || m.Role == llm.RoleSystem && !c.official {
			user = append(user, texts(m.Blocks))
			continue
		}
		flush()
		switch m.Role {
		case llm.RoleSystem:
			c.said("system", texts(m.Blocks))
		case llm.RoleTool:
			for _, b := range m.Blocks {
				c.element(wire.Piece{Kind: resultPiece, ID: b.Result.CallID, Text: b.Result.Content})
			}
		default:
			c.turn(m.Blocks, i > asked)
		}
		c.ended(i + 1)
	}
	flush()
}

func (c *chat) said(role, text string) {
	c.element(wire.Piece{Kind: messagePiece, Name: role, Text: text})
}

// lastQuestion returns the index of the last user message, -1 if absent.
func lastQuestion(conversation []llm.Message) int {
	for i := len(conversation) - 1; i >= 0; i-- {
		if conversation[i].Role == llm.RoleUser {
			return i
		}
	}
	return -1
}

// turn encodes a turn of the model if it has a text or a call. Thinking is sent in the field it was received in, and
// only while its question is the current one: servers that need thinking need it then.
func (c *chat) turn(blocks []llm.Block, current bool) {
	open := false
	add := func(p wire.Piece, first, next string) {
		if open {
			p.Before = next
			c.Add(p)
			return
		}
		p.Before = first
		open = c.element(p)
	}
	if s := texts(blocks); s != "" {
		add(wire.Piece{Kind: turnPiece, Text: s}, "{", "")
	}
	calls := 0
	for _, b := range blocks {
		if b.Call == nil {
			continue
		}
		p := wire.Piece{Kind: callPiece, ID: b.Call.ID, Name: c.Names.Encode(b.Call.Name), Text: b.Call.Input}
		if calls == 0 {
			add(p, `{"tool_calls":[`, `,"tool_calls":[`)
		} else {
			add(p, "", ",")
		}
		calls++
	}
	if !open {
		return
	}
	end := `,"role":"assistant"`
	if calls > 0 {
		end = "]" + end
	}
	c.Add(wire.Piece{Kind: literalPiece, Text: end})
	if current {
		c.thinking(blocks)
	}
	c.Add(wire.Piece{Kind: literalPiece, Text: "}"})
}

// thinking encodes the thinking of a turn, each field once.
func (c *chat) thinking(blocks []llm.Block) {
	var fields []string
	thought := map[string]string{}
	for _, b := range blocks {
		if b.Thinking == nil {
			continue
		}
		if o, ok := opaqueOf(b.Thinking, ChatName, c.origin); ok && o.Field != "" {
			if _, again := thought[o.Field]; !again {
				fields = append(fields, o.Field)
			}
			thought[o.Field] += b.Thinking.Text
		}
	}
	for _, field := range fields {
		c.Add(wire.Piece{Kind: thinkingPiece, Name: field, Text: thought[field]})
	}
}

// encodeChat encodes pieces as the SDK does.
func encodeChat(dst []byte, p wire.Piece) []byte {
	switch p.Kind {
	case literalPiece:
		return append(dst, p.Text...)
	case turnPiece:
		return wire.AppendString(append(dst, `"content":`...), p.Text)
	case thinkingPiece:
		dst = wire.AppendString(append(dst, ','), p.Name)
		return wire.AppendString(append(dst, ':'), p.Text)
	case callPiece:
		dst = wire.AppendString(append(dst, `{"id":`...), wire.CallID(p.ID))
		dst = wire.AppendString(append(dst, `,"function":{"arguments":`...), string(wire.ObjectInput(p.Text)))
		dst = wire.AppendString(append(dst, `,"name":`...), p.Name)
		return append(dst, `},"type":"function"}`...)
	case resultPiece:
		dst = wire.AppendString(append(dst, `{"content":`...), p.Text)
		dst = wire.AppendString(append(dst, `,"tool_call_id":`...), wire.CallID(p.ID))
		return append(dst, `,"role":"tool"}`...)
	}
	return appendMessage(dst, p)
}
