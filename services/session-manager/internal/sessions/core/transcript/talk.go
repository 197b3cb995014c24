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
	// stored are the messages before the last end, and seen is the list that they were compared with last.
	stored, seen []Stored
	messages     []Message
	ends         []end
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

// Follow returns the conversation of stored messages and those posted after them, as [History] does. Parts of it are
// kept from earlier calls if the messages before are the same. The list of stored messages may only be appended to.
func (t *Talk) Follow(stored, posted []Stored, toolResults bool) Conversation {
	if t == nil {
		return Conversation{Messages: History(slices.Concat(stored, posted), toolResults)}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.toolResults != toolResults {
		t.forget()
		t.toolResults = toolResults
	}
	t.keep(stored, posted)
	last := t.last()
	h := history{toolResults: toolResults, out: t.messages}
	for i := last.stored; i < len(t.stored); i++ {
		before := len(h.out)
		h.add(t.stored[i])
		for _, m := range h.out[before:] {
			last.chain = last.chain.With(m.Message, m.Source, m.AlwaysKeep)
			last.bytes += sizeOf(m)
		}
		if len(h.steers) == 0 {
			last.stored, last.messages = i+1, len(h.out)
			t.ends = append(t.ends, last)
		}
	}
	t.stored, t.messages = t.stored[:last.stored], h.out[:last.messages]
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
		t.forget()
	}
	return c
}

func (t *Talk) forget() { t.stored, t.seen, t.messages, t.ends = nil, nil, nil, nil }

func (t *Talk) last() end {
	if len(t.ends) == 0 {
		return end{}
	}
	return t.ends[len(t.ends)-1]
}

// keep forgets the messages after the common beginning with the given ones, which take their place in t.stored.
func (t *Talk) keep(stored, posted []Stored) {
	same := 0
	if unsafe.SliceData(t.seen) == unsafe.SliceData(stored) {
		same = min(len(t.seen), len(stored), len(t.stored))
	}
	for same < min(len(stored), len(t.stored)) && t.stored[same].is(&stored[same]) {
		same++
	}
	t.seen, t.stored = stored, append(append(t.stored[:same], stored[same:]...), posted...) // no other has this list
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
