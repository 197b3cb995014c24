package anthropic

import (
	"strconv"
	"strings"

	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/wire"
)

// emptyError replaces the empty text of an error result, which the API refuses.
const emptyError = "The tool failed without saying why."

// The kinds of pieces of a conversation.
const (
	textPiece byte = iota
	thinkingPiece
	callPiece
	resultPiece
)

// The roles of the API. The roles alternate, and the user is first.
const (
	user      = "user"
	assistant = "assistant"
)

// JSON between the pieces.
const (
	opening      = `{"messages":[`
	message      = `{"content":[`
	endUser      = `],"role":"user"}`
	endAssistant = `],"role":"assistant"}`
	cacheMark    = `,"cache_control":{"type":"ephemeral"}`
	began        = opening + message + `{"text":"(The conversation begins with your answer.)"`
	beganEnd     = `,"type":"text"}` + endUser + "," + message
)

// conversation encodes a conversation.
type conversation struct {
	*wire.Writer
	role string // of the open message
	mark bool   // the inserted first message ends a marked turn
}

// write encodes the conversation and the note behind it, and returns the JSON that ends the list. The encoded bytes
// before the first cache mark are kept for the next call, in which the marks are further on.
func (c *conversation) write(note, origin string) string {
	marks := marksOf(c.Messages, origin)
	c.mark = len(marks) < maxMarks
	unmarked := len(c.Messages)
	for p := range marks {
		unmarked = min(unmarked, p.message)
	}
	begin, role := c.Resume(unmarked, strconv.FormatBool(c.mark))
	c.role = role
	for i := begin; i < len(c.Messages); i++ {
		m := c.Messages[i]
		role := roleOf(m)
		for j, b := range m.Blocks {
			mark := marks[place{i, j}]
			if mark {
				c.Settle()
			}
			c.block(role, b, mark)
		}
		c.Ended(i+1, c.role)
	}
	c.Settle()
	if strings.TrimSpace(note) != "" {
		c.block(user, llm.Block{Text: &llm.Text{Text: note}}, false)
	}
	switch c.role {
	case user:
		return endUser + "]"
	case assistant:
		return endAssistant + "]"
	}
	return opening + "]"
}

// place is the position of a block in a conversation.
type place struct{ message, block int }

// maxMarks is the most cache marks of a conversation.
const maxMarks = 2

// marksOf returns the last blocks of the last turns that are not the model's.
func marksOf(messages []llm.Message, origin string) map[place]bool {
	marks := map[place]bool{}
	next := "" // the role of the following message
	for i := len(messages) - 1; i >= 0 && len(marks) < maxMarks; i-- {
		last := lastSent(messages[i].Blocks, origin)
		if last < 0 {
			continue
		}
		role := roleOf(messages[i])
		if role == user && next != user {
			marks[place{i, last}] = true
		}
		next = role
	}
	return marks
}

// lastSent returns the index of the last block that is sent, -1 if there is no such block.
func lastSent(blocks []llm.Block, origin string) int {
	for i := len(blocks) - 1; i >= 0; i-- {
		switch b := blocks[i]; {
		case b.Text != nil:
			if strings.TrimSpace(b.Text.Text) != "" {
				return i
			}
		case b.Thinking != nil:
			if _, ok := thinking(b.Thinking, origin); ok {
				return i
			}
		case b.Call != nil || b.Result != nil:
			return i
		}
	}
	return -1
}

func roleOf(m llm.Message) string {
	if m.Role == llm.RoleAssistant {
		return assistant
	}
	return user
}

// block adds a block of a message.
func (c *conversation) block(role string, b llm.Block, mark bool) {
	p := wire.Piece{Before: c.between(role), Mark: mark}
	switch {
	case b.Text != nil:
		p.Kind, p.Text = textPiece, b.Text.Text
	case b.Thinking != nil && b.Thinking.Driver == Name:
		p.Kind, p.Text, p.Data = thinkingPiece, b.Thinking.Text, string(b.Thinking.Opaque)
	case b.Call != nil:
		p.Kind, p.ID, p.Name, p.Text = callPiece, b.Call.ID, c.Names.Encode(b.Call.Name), b.Call.Input
	case b.Result != nil:
		p.Kind, p.ID, p.Text, p.Flag = resultPiece, b.Result.CallID, b.Result.Content, b.Result.IsError
	default:
		return
	}
	if c.Add(p) {
		c.role = role
	}
}

// between returns the JSON before the next block.
func (c *conversation) between(role string) string {
	switch {
	case c.role == role:
		return ","
	case c.role == user:
		return endUser + "," + message
	case c.role == assistant:
		return endAssistant + "," + message
	case role == user:
		return opening + message
	case c.mark:
		return began + cacheMark + beganEnd
	}
	return began + beganEnd
}

// encoder encodes pieces as the SDK does.
func encoder(origin string) wire.Encoder {
	return func(dst []byte, p wire.Piece) []byte {
		switch p.Kind {
		case thinkingPiece:
			return appendThinking(dst, p, origin)
		case callPiece:
			return appendCall(dst, p)
		case resultPiece:
			return appendResult(dst, p)
		}
		if strings.TrimSpace(p.Text) == "" {
			return dst
		}
		dst = wire.AppendString(append(dst, `{"text":`...), p.Text)
		return append(appendMark(dst, p), `,"type":"text"}`...)
	}
}

func appendMark(dst []byte, p wire.Piece) []byte {
	if p.Mark {
		return append(dst, cacheMark...)
	}
	return dst
}

func appendThinking(dst []byte, p wire.Piece, origin string) []byte {
	o, ok := readOpaque([]byte(p.Data), origin)
	switch {
	case !ok:
		return dst
	case o.Redacted != "":
		dst = wire.AppendString(append(dst, `{"data":`...), o.Redacted)
		return append(dst, `,"type":"redacted_thinking"}`...)
	}
	dst = wire.AppendString(append(dst, `{"signature":`...), o.Signature)
	dst = wire.AppendString(append(dst, `,"thinking":`...), p.Text)
	return append(dst, `,"type":"thinking"}`...)
}

func appendCall(dst []byte, p wire.Piece) []byte {
	dst = wire.AppendString(append(dst, `{"id":`...), wire.CallID(p.ID))
	dst = append(append(dst, `,"input":`...), wire.ObjectInput(p.Text)...)
	dst = wire.AppendString(append(dst, `,"name":`...), p.Name)
	return append(appendMark(dst, p), `,"type":"tool_use"}`...)
}

func appendResult(dst []byte, p wire.Piece) []byte {
	dst = wire.AppendString(append(dst, `{"tool_use_id":`...), wire.CallID(p.ID))
	empty := strings.TrimSpace(p.Text) == ""
	text := p.Text
	if p.Flag {
		dst = append(dst, `,"is_error":true`...)
		if empty {
			text, empty = emptyError, false
		}
	}
	dst = appendMark(dst, p)
	if !empty {
		dst = wire.AppendString(append(dst, `,"content":[{"text":`...), text)
		dst = append(dst, `,"type":"text"}]`...)
	}
	return append(dst, `,"type":"tool_result"}`...)
}
