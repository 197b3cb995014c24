package compact

import (
	"fmt"
	"slices"
	"strings"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/llm"
)

// maxSaid bounds the operator's words in a note, in bytes, and maxQuote those of one message.
const (
	maxSaid  = 4 << 10
	maxQuote = 400
)

// The parts of a note.
const (
	noteHead = "kaged removed the older part of this conversation to fit the model's window: "
	noteTail = " Files are as the removed steps left them; read again the parts you need."
	noteSaid = "\nThe operator said in it:"
	quoted   = "\n- "
)

// Dropped is the result of [Conversation.Drop].
type Dropped struct {
	// Spans are the dropped parts of stored messages.
	Spans []contract.Span
	// Turns and Messages are the dropped turns of the model and the dropped messages, without earlier notes.
	Turns, Messages int
	// Note is the text in their place.
	Note string
	// Tokens is the plain estimate of the conversation after it.
	Tokens int64
}

// Keep reports whether a unit, given as its messages, must stay.
type Keep func(unit []llm.Message) bool

// Drop returns the conversation without its oldest units, so that the plain estimate of its messages is at most
// limit or no unit is left to drop. The first message of the operator, the last one and the last unit stay, and
// those that keep names. Earlier notes are replaced by the new one. It returns the conversation itself and
// nothing dropped if that would not make it shorter.
func (c *Conversation) Drop(limit int64, keep Keep) (*Conversation, Dropped) {
	units := c.units()
	out, d := c.without(units, c.choose(units, limit, keep))
	if d.Messages == 0 || out.total >= c.total {
		return c, Dropped{Tokens: c.total}
	}
	d.Tokens = out.total
	return out, d
}

// choose marks the units to drop.
func (c *Conversation) choose(units []unit, limit int64, keep Keep) []bool {
	drop := make([]bool, len(units))
	first, last := -1, -1
	for i, u := range units {
		if c.messages[u.from].Role == llm.RoleUser {
			if last = i; first < 0 {
				first = i
			}
		}
	}
	left, said := c.total+Tokens(noteHead+noteTail)+2*messageTokens, 0
	for i, u := range units {
		if left <= limit {
			break
		}
		stays := i == first || i == last || i == len(units)-1 || c.isNote(u.from)
		if stays || keep != nil && keep(c.messages[u.from:u.to]) {
			continue
		}
		drop[i] = true
		left -= u.tokens
		if c.messages[u.from].Role == llm.RoleUser {
			if quote := quoteOf(c.messages[u.from]); said+len(quote) <= maxSaid {
				said += len(quote)
				left += Tokens(quote)
			}
		}
	}
	return drop
}

// isNote reports whether a message is the note of an earlier compaction.
func (c *Conversation) isNote(i int) bool { return c.messages[i].Role == llm.RoleSystem }

// without returns the conversation without the marked units, with a note in the place of the first.
func (c *Conversation) without(units []unit, drop []bool) (*Conversation, Dropped) {
	var d Dropped
	var said []string
	at := -1
	for i, u := range units {
		switch {
		case c.isNote(u.from):
			said = append(said, quotesIn(c.messages[u.from])...)
		case drop[i]:
			d.count(c, u)
			if c.messages[u.from].Role == llm.RoleUser {
				said = append(said, quoteOf(c.messages[u.from]))
			}
		default:
			continue
		}
		if at < 0 {
			at = i
		}
	}
	if d.Messages == 0 {
		return c, Dropped{}
	}
	d.Note = noteOf(d.Messages, said)
	var messages []llm.Message
	var from [][]contract.Source
	prior := 0
	for i, u := range units {
		if i == at {
			messages, from = append(messages, systemText(d.Note)), append(from, nil)
			prior++
		}
		if drop[i] || c.isNote(u.from) {
			continue
		}
		messages, from = append(messages, c.messages[u.from:u.to]...), append(from, c.sources[u.from:u.to]...)
		if u.from < c.prior {
			prior += u.to - u.from
		}
	}
	return joined(messages, from, prior), d
}

// joined returns a conversation of messages, normalized: neighbours may have one role where a unit between them
// is gone.
func joined(messages []llm.Message, sources [][]contract.Source, prior int) *Conversation {
	out, from := llm.NormalizeFrom(messages)
	c := &Conversation{}
	for i, m := range out {
		var of []contract.Source
		for _, j := range from[i] {
			of = append(of, sources[j]...)
		}
		c.add(m, slices.Compact(of))
		if from[i][0] < prior {
			c.prior = i + 1
		}
	}
	return c
}

// count adds a dropped unit.
func (d *Dropped) count(c *Conversation, u unit) {
	d.Messages += u.to - u.from
	if c.messages[u.from].Role == llm.RoleAssistant {
		d.Turns++
	}
	for _, s := range c.sources[u.from] {
		n := len(d.Spans)
		switch {
		case s.Step == 0:
			d.Spans = append(d.Spans, contract.Span{MessageID: s.MessageID})
		case n > 0 && d.Spans[n-1].MessageID == s.MessageID && d.Spans[n-1].To == s.Step-1:
			d.Spans[n-1].To = s.Step
		default:
			d.Spans = append(d.Spans, contract.Span{MessageID: s.MessageID, From: s.Step, To: s.Step})
		}
	}
}

func systemText(text string) llm.Message {
	return llm.Message{Role: llm.RoleSystem, Blocks: []llm.Block{{Text: &llm.Text{Text: text}}}}
}

// noteOf returns the note about dropped messages, with the newest of the operator's words in them.
func noteOf(messages int, said []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s.%s", noteHead, counted(messages, "message"), noteTail)
	first, size := len(said), 0
	for first > 0 && size+len(said[first-1]) <= maxSaid {
		first--
		size += len(said[first])
	}
	if first < len(said) {
		b.WriteString(noteSaid)
		for _, s := range said[first:] {
			b.WriteString(s)
		}
	}
	return b.String()
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// quoteOf returns the words of a message as a line of a note.
func quoteOf(m llm.Message) string {
	var b strings.Builder
	for _, block := range m.Blocks {
		if block.Text != nil {
			b.WriteString(block.Text.Text)
			b.WriteByte(' ')
		}
	}
	text := strings.Join(strings.Fields(b.String()), " ")
	if len(text) > maxQuote {
		text = strings.ToValidUTF8(clip.Bytes(text, maxQuote), "") + "…"
	}
	return quoted + text
}

// quotesIn returns the operator's words in an earlier note, as lines.
func quotesIn(m llm.Message) []string {
	var out []string
	for _, block := range m.Blocks {
		if block.Text == nil {
			continue
		}
		_, list, found := strings.Cut(block.Text.Text, noteSaid+quoted)
		if !found {
			continue
		}
		for _, line := range strings.Split(list, quoted) {
			out = append(out, quoted+line)
		}
	}
	return out
}
