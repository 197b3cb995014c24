package wire

import (
	"kaged.dev/pkg/llm"
)

// blockCost is the size of an empty block in the size of an answer, so that the number of blocks is limited too.
const blockCost = 256

// Kind is the kind of a [Part] of an answer.
type Kind int

// The kinds.
const (
	KindText Kind = iota
	KindThinking
	KindCall
)

// Part is a block of an incoming answer.
type Part struct {
	kind Kind
	text llm.Pieces
	// ID and Name are a call's, as sent by the provider. kaged replaces an empty id.
	ID, Name string
	// Opaque is the provider's own data of a thinking part.
	Opaque []byte
}

// Len returns the number of bytes written to the part.
func (p *Part) Len() int { return p.text.Len() }

// String returns the text written to the part.
func (p *Part) String() string { return p.text.String() }

// Output receives an answer from a decoder, block by block. It passes deltas on as they are written. Once the answer is
// too large, or its reader has stopped, it accepts no more and the call ends after the current event.
type Output struct {
	yield    func(llm.Event, error) bool
	driver   string
	names    *Names
	ids      *callIDs
	parts    []*Part
	most     int // maximum size of the answer in bytes
	left     int // remaining bytes
	accepted bool
	stopped  bool
	err      error
	done     *llm.Done
}

func newOutput(c Call, yield func(llm.Event, error) bool) *Output {
	return &Output{
		yield: yield, driver: c.Target.Driver, names: c.Names, ids: newCallIDs(c), most: c.Options.maxAnswer(),
		left: c.Options.maxAnswer(),
	}
}

// size returns the size of the answer so far, in bytes.
func (o *Output) size() int { return o.most - o.left }

// received returns the number of bytes that the model has written so far.
func (o *Output) received() int {
	n := 0
	for _, p := range o.parts {
		n += p.Len() + len(p.Name)
	}
	return n
}

// Accept reports that the provider answers. Every other method implies it.
func (o *Output) Accept() { o.AcceptCounted(llm.Usage{}) }

// AcceptCounted reports that the provider answers, with its token counts so far.
func (o *Output) AcceptCounted(u llm.Usage) {
	if !o.accepted {
		o.accepted = true
		o.emit(llm.Event{Accepted: &llm.Accepted{Usage: u}})
	}
}

// Open adds a part at the end of the answer.
func (o *Output) Open(kind Kind) *Part {
	o.Accept()
	p := &Part{kind: kind}
	if o.take(blockCost) {
		o.parts = append(o.parts, p)
	}
	return p
}

// Write adds text to a part. Text and thinking are passed on immediately.
func (o *Output) Write(p *Part, s string) {
	if s == "" || !o.take(len(s)) {
		return
	}
	o.Accept()
	p.text.WriteString(s)
	switch p.kind {
	case KindText:
		o.emit(llm.Event{TextDelta: s})
	case KindThinking:
		o.emit(llm.Event{ThinkingDelta: s})
	}
}

// SetOpaque gives a thinking part its provider's data, replacing earlier data.
func (o *Output) SetOpaque(p *Part, data []byte) {
	if o.take(len(data)) {
		p.Opaque = data
	}
}

// Take adds n bytes that a decoder holds elsewhere to the size of the answer.
func (o *Output) Take(n int) { o.take(n) }

// Finish ends the answer: the call yields it and reads no further. The reason becomes llm.StopToolUse if the answer
// holds a call.
func (o *Output) Finish(stop llm.StopReason, usage llm.Usage) {
	o.Accept()
	for _, p := range o.parts {
		o.take(len(p.ID) + len(p.Name))
	}
	blocks := o.blocks(stop)
	for _, b := range blocks {
		if b.Call != nil {
			stop = llm.StopToolUse
		}
	}
	o.done = &llm.Done{Blocks: blocks, Stop: stop, Usage: usage}
}

// HasCalls reports whether the answer holds calls so far.
func (o *Output) HasCalls() bool {
	for _, p := range o.parts {
		if p.kind == KindCall {
			return true
		}
	}
	return false
}

// Empty reports whether the answer is empty so far.
func (o *Output) Empty() bool { return len(o.parts) == 0 }

func (o *Output) blocks(stop llm.StopReason) []llm.Block {
	blocks := make([]llm.Block, 0, len(o.parts))
	for i, p := range o.parts {
		s := p.text.String()
		p.text = llm.Pieces{} // frees the pieces, so that a long answer is held once
		switch p.kind {
		case KindText:
			if s != "" {
				blocks = append(blocks, llm.Block{Text: &llm.Text{Text: s}})
			}
		case KindThinking:
			if s != "" || len(p.Opaque) > 0 {
				blocks = append(blocks, llm.Block{Thinking: &llm.Thinking{Text: s, Opaque: p.Opaque, Driver: o.driver}})
			}
		case KindCall:
			if stop == llm.StopLength && i == len(o.parts)-1 && s == "" {
				// The limit cut the answer before the call's input was complete.
				continue
			}
			call := &llm.ToolCall{ID: o.ids.unique(p.ID), Name: o.names.Decode(p.Name), Input: CallInput(s)}
			blocks = append(blocks, llm.Block{Call: call})
		}
	}
	return blocks
}

func (o *Output) take(n int) bool {
	if o.err != nil || o.stopped {
		return false
	}
	if o.left -= n; o.left < 0 {
		o.err = errTooLarge
		return false
	}
	return true
}

func (o *Output) emit(ev llm.Event) {
	if !o.stopped && !o.yield(ev, nil) {
		o.stopped = true
	}
}
