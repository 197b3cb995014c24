package compact

import (
	"fmt"
	"slices"
	"strings"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/llm"
)

// maxSaid is the most bytes of the operator's words in a note, and maxQuote the most bytes of one message's words.
const (
	maxSaid  = 4 << 10
	maxQuote = 400
)

// everything is a limit at which every unit is dropped that may be dropped.
const everything = -1 << 40

// The parts of a note.
const (
	noteHead = "kaged removed the older part of this conversation to fit the model's window: "
	noteTail = " Files are as the removed steps left them; read again the parts you need."
	noteSaid = "\nThe operator said in it:"
	quoted   = "\n- "

	summaryHead = "A summary of the older part of this conversation, which had "
)

// Dropped describes the dropped units.
type Dropped struct {
	// Spans are the dropped parts of stored messages.
	Spans []contract.Span
	// Turns and Messages count the dropped turns of the model and the dropped messages, without notes of earlier
	// compactions.
	Turns, Messages int
	// Note is the text that replaces them.
	Note string
	// Tokens is the plain estimate of the remaining conversation.
	Tokens int64
}

// Keep reports whether a unit must be kept. Its arguments are the unit's messages and their stored positions.
type Keep func(unit []llm.Message, of []contract.Source) bool

// Drop removes the oldest units until the plain estimate of the messages is at most limit or no unit is left to drop.
// ledger follows the note. It returns the same conversation and no spans if the result would not be shorter.
func (c *Conversation) Drop(limit int64, keep Keep, ledger string) (*Conversation, Dropped) {
	p := c.Plan(limit, 0, keep, ledger)
	return p.Apply(p.Note())
}

// Plan is a choice of units to drop.
type Plan struct {
	of     *Conversation
	units  []unit
	drop   []bool
	keep   Keep
	said   []string // the operator's words in dropped units and earlier notes
	ledger string
	gone   Dropped
}

// Plan chooses the oldest units, until the plain estimate of the rest, with extra tokens for the text that replaces
// them, is at most limit or no unit is left to choose. The operator's first and last messages, the last unit, and the
// units that keep names are kept.
func (c *Conversation) Plan(limit, extra int64, keep Keep, ledger string) *Plan {
	p := &Plan{of: c, units: c.units(), keep: keep, ledger: ledger}
	p.drop = c.choose(p.units, limit-extra-Tokens(ledger), keep)
	p.tally()
	return p
}

// tally counts the dropped units and collects the operator's words in them and in earlier notes.
func (p *Plan) tally() {
	c := p.of
	for i, u := range p.units {
		switch {
		case c.isNote(u.from):
			p.said = append(p.said, quotesIn(c.messages[u.from])...)
		case p.drop[i]:
			p.gone.count(c, u)
			if c.messages[u.from].Role == llm.RoleUser {
				p.said = append(p.said, quoteOf(c.messages[u.from]))
			}
		}
	}
}

// Unit is a part of a conversation that is dropped as a whole.
type Unit struct {
	Messages []llm.Message
	Of       []contract.Source
}

// Candidates returns the units that may be dropped, in order.
func (c *Conversation) Candidates(keep Keep) (out []Unit) {
	units := c.units()
	free := c.choose(units, everything, keep)
	for i, u := range units {
		if free[i] {
			out = append(out, Unit{Messages: c.messages[u.from:u.to], Of: c.placesOf(u)})
		}
	}
	return out
}

// PlanOf returns a plan that drops the candidates at the given indices. It returns false for an index that is out of
// range or repeated.
func (c *Conversation) PlanOf(places []int, keep Keep, ledger string) (*Plan, bool) {
	p := &Plan{of: c, units: c.units(), keep: keep, ledger: ledger}
	var candidates []int
	for i, free := range c.choose(p.units, everything, keep) {
		if free {
			candidates = append(candidates, i)
		}
	}
	p.drop = make([]bool, len(p.units))
	for _, at := range places {
		if at < 0 || at >= len(candidates) || p.drop[candidates[at]] {
			return nil, false
		}
		p.drop[candidates[at]] = true
	}
	p.tally()
	return p, true
}

// Places returns the indices of the plan's units among the candidates.
func (p *Plan) Places() (places []int) {
	at := 0
	for i, free := range p.of.choose(p.units, everything, p.keep) {
		if !free {
			continue
		}
		if p.drop[i] {
			places = append(places, at)
		}
		at++
	}
	return places
}

// Before returns the text of the notes of earlier compactions, without their views of the ledger.
func (p *Plan) Before() string {
	var texts []string
	for _, u := range p.units {
		if !p.of.isNote(u.from) {
			continue
		}
		for _, b := range p.of.messages[u.from].Blocks {
			if b.Text != nil {
				text, _, _ := strings.Cut(b.Text.Text, "\n\n"+ledgerHead)
				texts = append(texts, text)
			}
		}
	}
	return strings.Join(texts, "\n\n")
}

// Ledger returns the view of the ledger that follows the plan's note.
func (p *Plan) Ledger() string { return p.ledger }

// Empty reports whether the plan drops no unit.
func (p *Plan) Empty() bool { return p.gone.Messages == 0 }

// Messages returns the messages of the dropped units and the notes of earlier compactions. Pruned results stay
// pruned.
func (p *Plan) Messages() []llm.Message {
	var out []llm.Message
	for i, u := range p.units {
		if !p.drop[i] && !p.of.isNote(u.from) {
			continue
		}
		for at := u.from; at < u.to; at++ {
			out = append(out, p.of.messages[at])
		}
	}
	return out
}

// Tokens is the plain estimate of the dropped units.
func (p *Plan) Tokens() (n int64) {
	for i, u := range p.units {
		if p.drop[i] {
			n += u.tokens
		}
	}
	return n
}

// Note returns the note that replaces the dropped units: the operator's words in them, then the ledger.
func (p *Plan) Note() string { return p.with(noteOf(p.gone.Messages, p.said)) }

// Summarized returns a note with a model's summary, then the ledger.
func (p *Plan) Summarized(summary string) string {
	return p.with(summaryHead + counted(p.gone.Messages, "message") + ".\n\n" + summary)
}

func (p *Plan) with(text string) string {
	if p.ledger == "" {
		return text
	}
	return text + "\n\n" + p.ledger
}

// Apply returns the conversation with a note in the place of the first dropped unit or earlier note. Results in the
// rest are unpruned: pruning starts anew, as a later run would prune the stored conversation. Apply returns the same
// conversation and no spans if the note is not shorter than the part it replaces.
func (p *Plan) Apply(note string) (*Conversation, Dropped) {
	c := p.of
	if p.Empty() {
		return c, Dropped{Tokens: c.total}
	}
	var messages []llm.Message
	var from [][]contract.Source
	prior, noted := 0, false
	before, after := int64(0), messageTokens+Tokens(note)
	for i, u := range p.units {
		if p.drop[i] || c.isNote(u.from) {
			before += u.tokens
			if !noted {
				noted = true
				messages, from = append(messages, systemText(note)), append(from, nil)
				prior++
			}
			continue
		}
		for at := u.from; at < u.to; at++ {
			messages, from = append(messages, c.whole(at)), append(from, c.sources[at])
		}
		if u.from < c.prior {
			prior += u.to - u.from
		}
	}
	if after >= before {
		return c, Dropped{Tokens: c.total}
	}
	out, d := joined(messages, from, prior), p.gone
	d.Note, d.Tokens = note, out.total
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
		if stays || keep != nil && keep(c.messages[u.from:u.to], c.placesOf(u)) {
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

// placesOf returns the stored positions of a unit's messages.
func (c *Conversation) placesOf(u unit) (out []contract.Source) {
	for _, of := range c.sources[u.from:u.to] {
		out = append(out, of...)
	}
	return out
}

// isNote reports whether a message is the note of an earlier compaction.
func (c *Conversation) isNote(i int) bool { return c.messages[i].Role == llm.RoleSystem }

// joined returns a normalized conversation of messages. Neighbours can have the same role if a unit between them was
// dropped.
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

// noteOf returns the note about dropped messages, with the newest of the operator's words that fit.
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

// quoteOf returns the text of a message as a line of a note.
func quoteOf(m llm.Message) string {
	var b strings.Builder
	for _, block := range m.Blocks {
		if block.Text != nil {
			b.WriteString(block.Text.Text)
			b.WriteByte(' ')
		}
	}
	return quoted + clip.Marked(strings.Join(strings.Fields(b.String()), " "), maxQuote, "…")
}

// quotesIn returns the lines with the operator's words in an earlier note.
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
		list, _, _ = strings.Cut(list, "\n\n"+ledgerHead)
		for _, line := range strings.Split(list, quoted) {
			out = append(out, quoted+line)
		}
	}
	return out
}
