package server

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/llm"
)

// Kept conversations stay within the number of sessions and the bytes, the least recently used go first, and one
// without a run is dropped after its time. A conversation is taken once. After close, or if no sessions are allowed,
// no conversation is kept.
func TestTalks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := newTalks(KeepLimits{Sessions: 3, Bytes: 1000, For: time.Minute})
		put := func(session string, bytes int) { list.put(session, &talk{conversation: conversation{bytes: bytes}}) }
		there := func() (sessions string) {
			for _, session := range list.list.Keys() {
				sessions += session
			}
			return sessions
		}
		check := func(when, want string, bytes int) {
			t.Helper()
			list.mu.Lock()
			defer list.mu.Unlock()
			if got := there(); got != want || list.bytes != bytes {
				t.Errorf("%s: %q with %d bytes are kept, want %q with %d", when, got, list.bytes, want, bytes)
			}
		}
		for i, session := range []string{"a", "b", "c", "d"} {
			put(session, 100+i)
		}
		check("one too many", "bcd", 306)
		put("b", 50)
		check("kept again", "cdb", 255)
		put("e", 900)
		check("too many bytes", "be", 950)
		put("f", 1001)
		check("too large", "be", 950)
		if got := list.take("b"); got == nil || got.bytes != 50 || list.take("b") != nil {
			t.Error("a conversation is not taken once")
		}
		check("taken", "e", 900)
		time.Sleep(40 * time.Second)
		put("g", 10)
		time.Sleep(30 * time.Second)
		check("a minute later", "g", 10)
		time.Sleep(time.Minute)
		check("another minute later", "", 0)
		put("h", 10)
		list.close()
		put("i", 10)
		check("closed", "", 0)

		off := newTalks(KeepLimits{Bytes: 1000, For: time.Minute})
		off.put("a", &talk{})
		if off.take("a") != nil {
			t.Error("a conversation is kept without sessions")
		}
		off.close()
	})
}

// A conversation has the marks against compaction of its messages, and a copy grows without the original.
func TestConversationsGrow(t *testing.T) {
	var c conversation
	for i := range 3 {
		m := llm.Message{Role: llm.RoleUser, Blocks: []llm.Block{{Text: &llm.Text{Text: fmt.Sprint(i)}}}}
		c.add(m, contract.Source{MessageID: fmt.Sprint("m", i/2)}, i < 2)
	}
	if got := c.always(); len(got) != 1 || !got["m0"] {
		t.Errorf("marked are %v", got)
	}
	if (&conversation{}).always() != nil {
		t.Error("an empty conversation has marks")
	}
}
