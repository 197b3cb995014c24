package transcript

import (
	"slices"
	"sync"
	"unsafe"

	"kaged.dev/pkg/contract"
)

// maxTalk bounds the texts of a kept conversation, in bytes. A longer one is built anew for each run.
const maxTalk = 16 << 20

// maxBeginnings bounds the beginnings that are offered to a harness.
const maxBeginnings = 8

// Talk is the conversation of a live session as a model gets it. It is kept between runs, so that a run builds only the
// new messages. It is safe for concurrent use; a nil Talk builds the whole conversation.
type Talk struct {
	mu          sync.Mutex // guards the fields below
	toolResults bool
	stored      []Stored
	messages    []Message
	ends        []end
}

// end is a place between two stored messages with no steering message pending.
type end struct {
	stored, messages, bytes int
	chain                   contract.Chain
}

// Conversation is a conversation with beginnings that a harness may have kept, the longest first.
type Conversation struct {
	Messages   []Message
	Beginnings []Beginning
}

// Beginning is the hash of the first messages of a conversation.
type Beginning struct {
	Messages int
	Hash     string
}

// Follow returns the conversation of stored messages, as [History] does. Parts of it are kept from earlier calls if the
// stored messages before are the same.
func (t *Talk) Follow(stored []Stored, toolResults bool) Conversation {
	if t == nil {
		return Conversation{Messages: History(stored, toolResults)}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.toolResults != toolResults {
		t.toolResults, t.stored, t.messages, t.ends = toolResults, nil, nil, nil
	}
	t.keep(stored)
	last := t.last()
	h := history{toolResults: toolResults, out: t.messages}
	for i := last.stored; i < len(stored); i++ {
		before := len(h.out)
		h.add(stored[i])
		for _, m := range h.out[before:] {
			last.chain = last.chain.With(m.Message, m.Source, m.AlwaysKeep)
			last.bytes += sizeOf(m)
		}
		if len(h.steers) == 0 {
			last.stored, last.messages = i+1, len(h.out)
			t.ends = append(t.ends, last)
		}
	}
	t.stored, t.messages = stored[:last.stored:last.stored], h.out[:last.messages]
	c := Conversation{Messages: slices.Clip(h.all())}
	if len(c.Messages) > last.messages {
		t.messages = slices.Clip(t.messages) // c has what follows in the same memory
	}
	for _, e := range slices.Backward(t.ends[max(0, len(t.ends)-maxBeginnings):]) {
		if e.messages > 0 {
			c.Beginnings = append(c.Beginnings, Beginning{Messages: e.messages, Hash: e.chain.String()})
		}
	}
	if last.bytes > maxTalk {
		t.stored, t.messages, t.ends = nil, nil, nil
	}
	return c
}

func (t *Talk) last() end {
	if len(t.ends) == 0 {
		return end{}
	}
	return t.ends[len(t.ends)-1]
}

// keep forgets the messages after the common beginning with the given ones.
func (t *Talk) keep(stored []Stored) {
	same := 0
	for same < min(len(stored), len(t.stored)) && t.stored[same].is(&stored[same]) {
		same++
	}
	for len(t.ends) > 0 && t.last().stored > same {
		t.ends = t.ends[:len(t.ends)-1]
	}
	if n := t.last().messages; n < len(t.messages) {
		t.messages = t.messages[:n:n] // earlier conversations share the memory behind
	}
}

// is reports whether two stored messages are the same: they share their blocks, which are never changed in place.
func (m *Stored) is(o *Stored) bool {
	return m.ID == o.ID && m.Role == o.Role && len(m.Blocks) == len(o.Blocks) &&
		unsafe.SliceData(m.Blocks) == unsafe.SliceData(o.Blocks) && m.Content == o.Content &&
		slices.Equal(m.Spans, o.Spans) && m.Summary == o.Summary && m.SupersededTurns == o.SupersededTurns &&
		m.AlwaysKeep == o.AlwaysKeep && m.Running == o.Running && m.AfterStep == o.AfterStep
}

func sizeOf(m Message) int {
	n := 0
	for _, b := range m.Blocks {
		n += b.Size()
	}
	return n
}
