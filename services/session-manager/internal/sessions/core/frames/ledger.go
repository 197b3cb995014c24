package frames

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"kaged.dev/pkg/fault"
)

// Progress is the progress of publishing a session's frames, to be stored.
type Progress struct {
	Session string
	// Acked is the last number that the stream holds, by channel; 0 leaves the stored number unchanged.
	Acked [Channels]int64
	// Published are the N of the durable frames to delete from the outbox.
	Published []int64
}

// merge adds later progress of the same session.
func (p *Progress) merge(q Progress) {
	for c := range p.Acked {
		p.Acked[c] = max(p.Acked[c], q.Acked[c])
	}
	p.Published = append(p.Published, q.Published...)
}

// Saver stores progress. Stored numbers never decrease, and deleting a missing frame succeeds, so that saving twice
// is harmless.
type Saver interface {
	SaveProgress(ctx context.Context, list []Progress) error
}

// soon is the time for which published durable frames wait for others: a run begins with two and ends with three. In
// it the first request of the run leaves, on the same processors.
const soon = 10 * time.Millisecond

// Ledger stores the progress of all sessions in shared transactions: soon after durable frames were published, and
// once per interval for other frames. It is safe for concurrent use. [Ledger.Run] is its one goroutine.
type Ledger struct {
	store    Saver
	interval time.Duration
	log      *slog.Logger
	wake     chan struct{} // capacity 1

	mu     sync.Mutex // guards the fields below
	news   map[string]*Progress
	urgent bool

	saving chan struct{} // holds a token during a save, so that saves do not overtake one another
}

// NewLedger returns a Ledger. Unsaved progress waits at most interval, unless a save fails.
func NewLedger(store Saver, interval time.Duration, log *slog.Logger) *Ledger {
	return &Ledger{
		store: store, interval: interval, log: log, wake: make(chan struct{}, 1), news: map[string]*Progress{},
		saving: make(chan struct{}, 1),
	}
}

// Note adds progress to be saved. It never blocks.
func (l *Ledger) Note(p Progress) {
	l.mu.Lock()
	first := len(l.news) == 0
	if have := l.news[p.Session]; have != nil {
		have.merge(p)
	} else {
		l.news[p.Session] = &p
	}
	urgent := len(p.Published) > 0
	call := first || urgent && !l.urgent
	l.urgent = l.urgent || urgent
	l.mu.Unlock()
	if call {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// Run saves until ctx ends; [Ledger.Flush] saves the rest.
func (l *Ledger) Run(ctx context.Context) {
	timer := time.NewTimer(l.interval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
			wait := l.interval
			if l.due() {
				wait = min(wait, soon)
			}
			timer.Reset(wait)
			continue
		case <-timer.C:
		}
		if err := l.Flush(ctx); err != nil && ctx.Err() == nil {
			l.log.Warn("the progress of published frames was not stored; retrying", "error", err)
			timer.Reset(l.interval)
		}
	}
}

func (l *Ledger) due() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.urgent
}

// Flush saves all noted progress; after an error it stays noted. If another save hangs, as on a frozen database,
// Flush returns the error of ctx once that ends.
func (l *Ledger) Flush(ctx context.Context) error {
	select {
	case l.saving <- struct{}{}:
		defer func() { <-l.saving }()
	case <-ctx.Done():
		return fault.From(ctx.Err())
	}
	l.mu.Lock()
	news := l.news
	l.news, l.urgent = map[string]*Progress{}, false
	l.mu.Unlock()
	if len(news) == 0 {
		return nil
	}
	list := make([]Progress, 0, len(news))
	for _, p := range news {
		list = append(list, *p)
	}
	// Saves of several processes lock the same rows in the same order, which avoids deadlocks.
	slices.SortFunc(list, func(a, b Progress) int { return cmp.Compare(a.Session, b.Session) })
	err := l.store.SaveProgress(ctx, list)
	if err != nil {
		l.restore(news)
	}
	return err
}

func (l *Ledger) restore(old map[string]*Progress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for session, p := range old {
		if newer := l.news[session]; newer != nil {
			p.merge(*newer)
		}
	}
	maps.Copy(l.news, old)
}
