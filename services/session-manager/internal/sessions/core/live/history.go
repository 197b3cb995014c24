package live

import (
	"context"
	"slices"
	"sync"

	"kaged.dev/services/session-manager/internal/sessions/core/record"
)

// maxKeptHistory bounds the cached texts of a session's conversation, in bytes. A longer conversation is read again
// for each message.
const maxKeptHistory = 16 << 20

// keptHistory caches a session's conversation. Messages are only appended, and each change of superseded parts
// raises [Session.Shaped], so while that is unchanged only the messages after the last one are read. It is safe for
// concurrent use.
type keptHistory struct {
	mu     sync.Mutex // guards the fields below
	list   []record.Message
	shaped int64
	bytes  int
}

// History returns the session's messages in order. The caller must not change them. It fails with unavailable while
// the store is unreachable.
func (s *Session) History(ctx context.Context) ([]record.Message, error) {
	k := &s.kept
	k.mu.Lock()
	defer k.mu.Unlock()
	shaped := s.Shaped()
	if k.shaped != shaped {
		k.list, k.bytes = nil, 0
	}
	after := int64(0)
	if n := len(k.list); n > 0 {
		after = k.list[n-1].Ordinal
	}
	fresh, err := s.g.Store.History(ctx, s.ID, after)
	if err == nil && after > 0 && slices.ContainsFunc(fresh, func(m record.Message) bool { return len(m.Spans) > 0 }) {
		// A message with superseded parts moves the summary, which belongs to the first such message: read all again.
		k.list, k.bytes = nil, 0
		fresh, err = s.g.Store.History(ctx, s.ID, 0)
	}
	if err != nil {
		return nil, err
	}
	for _, m := range fresh {
		k.bytes += sizeOf(m)
	}
	k.list, k.shaped = append(k.list, fresh...), shaped
	list := k.list[:len(k.list):len(k.list)]
	if k.bytes > maxKeptHistory || s.Shaped() != shaped {
		k.list, k.bytes = nil, 0
	}
	return list, nil
}

// sizeOf returns the bytes of a message's texts.
func sizeOf(m record.Message) int {
	n := len(m.Content)
	for _, b := range m.Blocks {
		n += b.Size()
	}
	return n
}
