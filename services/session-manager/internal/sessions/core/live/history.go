package live

import (
	"context"
	"slices"
	"sync"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/transcript"
)

// maxKeptHistory bounds the cached texts of a session's conversation, in bytes. While those of all sessions exceed
// maxKept, a conversation is cached up to leastKept only. One that is not cached is read again for each message, which
// takes 0.2 s for 20 MB.
const (
	maxKeptHistory = 64 << 20
	maxKept        = 256 << 20
	leastKept      = 16 << 20
)

// History is a session's conversation, in order. Its lists are shared and only appended to, by the session.
type History struct {
	Messages []record.Message
	// Stored are the messages that a model receives.
	Stored []transcript.Stored
}

// keptHistory caches a session's conversation. Messages are only appended, and each change of superseded parts
// raises [Session.Shaped], so while that is unchanged only the messages after the last one are read. It is safe for
// concurrent use.
type keptHistory struct {
	// reading guards the fields below. It is held while the store is read, which a database that does not answer can
	// make last: the callers that wait leave with their contexts.
	reading turn
	list    History
	shaped  int64
	bytes   int
}

// History returns the session's conversation. The caller must not change it. It fails with unavailable while the store
// is unreachable. If all messages are cached it does not ask the store: only this process appends.
func (s *Session) History(ctx context.Context) (History, error) {
	list, err := s.history(ctx)
	select {
	case <-s.gone:
		s.leaveHistory() // the registry does not wait for a read in progress
	default:
	}
	return list, err
}

func (s *Session) history(ctx context.Context) (History, error) {
	k := &s.kept
	if err := k.reading.take(ctx); err != nil {
		return History{}, err
	}
	defer k.reading.end()
	shaped := s.Shaped()
	if k.shaped != shaped {
		s.forgetHistory()
	}
	after := int64(0)
	n := len(k.list.Messages)
	if int64(n) == s.Record().MessageCount {
		return k.list.clip(), nil
	}
	if n > 0 {
		after = k.list.Messages[n-1].Ordinal
	}
	fresh, err := s.g.Store.History(ctx, s.ID, after)
	if err == nil && after > 0 && slices.ContainsFunc(fresh, func(m record.Message) bool { return len(m.Spans) > 0 }) {
		// A message with superseded parts moves the summary, which belongs to the first such message: read all again.
		s.forgetHistory()
		fresh, err = s.g.Store.History(ctx, s.ID, 0)
	}
	if err != nil {
		return History{}, err
	}
	size := 0
	for _, m := range fresh {
		size += sizeOf(m)
	}
	k.bytes += size
	all := s.g.kept.Add(int64(size))
	k.list.Messages, k.list.Stored = append(k.list.Messages, fresh...), record.History(k.list.Stored, fresh...)
	k.shaped = shaped
	list := k.list.clip()
	if k.bytes > maxKeptHistory || k.bytes > leastKept && all > maxKept || s.Shaped() != shaped {
		s.forgetHistory()
	}
	return list, nil
}

// leaveHistory empties the cache of a session that is gone. A read in progress does it after itself.
func (s *Session) leaveHistory() {
	if s.kept.reading.try() {
		defer s.kept.reading.end()
		s.forgetHistory()
	}
}

// forgetHistory empties the cache. The caller holds the cache's turn.
func (s *Session) forgetHistory() {
	k := &s.kept
	s.g.kept.Add(int64(-k.bytes))
	k.list, k.bytes = History{}, 0
}

// clip returns h without the room behind its lists, to which only their owner appends.
func (h History) clip() History { return History{slices.Clip(h.Messages), slices.Clip(h.Stored)} }

// maxKeptLedger bounds the cached texts of a session's ledger, in bytes.
const maxKeptLedger = 256 << 10

// keptLedger caches the entries of a session's ledger that its runs receive, until a change adds entries. It is safe
// for concurrent use.
type keptLedger struct {
	mu     sync.Mutex // guards the fields below
	kept   contract.Ledger
	known  bool
	change int64 // number of changes with entries so far
}

// added forgets the cached entries.
func (k *keptLedger) added() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.change++
	k.kept, k.known = contract.Ledger{}, false
}

// changes returns the number of changes with entries so far.
func (k *keptLedger) changes() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.change
}

// Ledger returns the entries of the session's ledger that its runs receive. The caller must not change them. It fails
// with unavailable while the store is unreachable.
func (s *Session) Ledger(ctx context.Context) (contract.Ledger, error) {
	k := &s.ledger
	k.mu.Lock()
	kept, known, change := k.kept, k.known, k.change
	k.mu.Unlock()
	if known {
		return kept, nil
	}
	kept, err := s.g.Store.RelevantLedger(ctx, s.ID)
	size := 0
	for _, e := range kept.Entries {
		size += len(e.Path) + len(e.Command) + len(e.Text)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil && size <= maxKeptLedger && k.change == change {
		k.kept, k.known = kept, true
	}
	return kept, err
}

// maxWarmed bounds the size of an answer that is read back before the next message, in bytes of text.
const maxWarmed = 256 << 10

// maxWarming bounds the sessions that are warmed at once. Beyond it, as when many runs end together, the next message
// reads for itself.
const maxWarming = 2

// maxWarm bounds the time in which a session is warmed.
const maxWarm = 10 * time.Second

// warmLater reads, in the background, what the session's next run receives, so that its message does not wait for it.
// ended are the messages of the run before. A failure is left to the next message.
func (g *Registry) warmLater(s *Session, ended []record.Message) {
	size := 0
	for _, m := range ended {
		size += sizeOf(m)
	}
	if size > maxWarmed {
		return
	}
	select {
	case g.warming <- struct{}{}:
	default:
		return
	}
	if held, err := g.hold(s); !held || err != nil {
		<-g.warming
		return
	}
	g.work.Go(func() {
		defer func() { <-g.warming }()
		defer g.release(s)
		ctx, cancel := context.WithTimeout(g.ctx, maxWarm) // a reader that hangs would hold up the next message
		defer cancel()
		_, _ = s.History(ctx)
		_, _ = s.Ledger(ctx)
	})
}

// sizeOf returns the bytes of a message's texts.
func sizeOf(m record.Message) int {
	n := len(m.Content)
	for _, b := range m.Blocks {
		n += b.Size()
	}
	return n
}
