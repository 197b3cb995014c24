package server

import (
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/llm"
	"kaged.dev/services/harness/internal/core/loop"
)

// KeepLimits bound the conversations that are kept between runs. Sessions 0 turns this off.
type KeepLimits struct {
	// Sessions is the most conversations, Bytes their most memory together.
	Sessions int
	Bytes    int
	// For is the longest time without a run.
	For time.Duration
}

// talk is the conversation of a session's root agent as its last run received it, with that run's state.
type talk struct {
	conversation
	carried *loop.Carried
	memory  int // in bytes
	until   time.Time
}

// conversation is a conversation as session-manager sends it.
type conversation struct {
	messages []llm.Message
	sources  []contract.Source
	kept     []string // messages that no compaction may supersede
	chain    contract.Chain
	bytes    int
}

func (c *conversation) add(m llm.Message, from contract.Source, alwaysKeep bool) {
	c.messages, c.sources = append(c.messages, m), append(c.sources, from)
	if alwaysKeep && !slices.Contains(c.kept, from.MessageID) {
		c.kept = append(c.kept, from.MessageID)
	}
	c.chain = c.chain.With(m, from, alwaysKeep)
	c.bytes += size(m)
}

// always returns the messages that no compaction may supersede; nil without any.
func (c *conversation) always() map[string]bool {
	if len(c.kept) == 0 {
		return nil
	}
	out := make(map[string]bool, len(c.kept))
	for _, id := range c.kept {
		out[id] = true
	}
	return out
}

// talks are the conversations of sessions between runs, the least recently used first. A run takes its session's
// conversation and puts it back at its end. talks is safe for concurrent use.
//
// Timer: one while conversations are kept, which ends with close.
type talks struct {
	limits KeepLimits

	mu     sync.Mutex // guards the fields below
	list   *simplelru.LRU[string, *talk]
	bytes  int
	sweep  *time.Timer
	closed bool
}

func newTalks(limits KeepLimits) *talks {
	t := &talks{limits: limits}
	if limits.Sessions > 0 {
		t.list, _ = simplelru.NewLRU[string, *talk](limits.Sessions, nil) // fails only for no sessions
	}
	return t
}

// take returns the conversation of a session, nil for an unknown one, and forgets it.
func (t *talks) take(session string) *talk {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.list == nil {
		return nil
	}
	kept, ok := t.list.Peek(session)
	if !ok {
		return nil
	}
	t.list.Remove(session)
	t.bytes -= kept.memory
	return kept
}

// put keeps the conversation of a session, and drops the least recently used ones that are too many.
func (t *talks) put(session string, kept *talk) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept.memory = kept.bytes + kept.carried.Size()
	if t.list == nil || t.closed || kept.memory > t.limits.Bytes {
		kept.carried.Drop()
		return
	}
	if before, ok := t.list.Peek(session); ok {
		t.drop(session, before)
	}
	for t.list.Len() == t.limits.Sessions || t.bytes+kept.memory > t.limits.Bytes {
		t.dropOldest()
	}
	kept.until = time.Now().Add(t.limits.For)
	t.list.Add(session, kept)
	t.bytes += kept.memory
	if t.sweep == nil {
		t.sweep = time.AfterFunc(t.limits.For, t.expire)
	}
}

// expire drops the conversations without a run for too long.
func (t *talks) expire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweep = nil
	for !t.closed {
		_, oldest, ok := t.list.GetOldest()
		if !ok {
			return
		}
		if left := time.Until(oldest.until); left > 0 {
			t.sweep = time.AfterFunc(left, t.expire)
			return
		}
		t.dropOldest()
	}
}

// drop removes a conversation. The caller holds mu, here and below.
func (t *talks) drop(session string, kept *talk) {
	t.list.Remove(session)
	t.bytes -= kept.memory
	kept.carried.Drop()
}

func (t *talks) dropOldest() {
	session, kept, _ := t.list.GetOldest()
	t.drop(session, kept)
}

// close drops all conversations and keeps no more.
func (t *talks) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	if t.sweep != nil {
		t.sweep.Stop()
	}
	for t.list != nil && t.list.Len() > 0 {
		t.dropOldest()
	}
}
