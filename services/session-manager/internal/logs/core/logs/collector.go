package logs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/redact"
	"kaged.dev/pkg/retry"
)

// The bounds of a [Collector].
const (
	// maxWaiting bounds the entries that wait for the store.
	maxWaiting = 4096
	// maxBatch bounds the entries in one statement.
	maxBatch = 256
	// burst is the number of entries of a flow that are accepted at once, perSecond the rate after that.
	burst, perSecond = 200, 20
	// maxKeys bounds the flows with a rate of their own; further ones share one rate.
	maxKeys = 4096
	// maxMessage bounds a message, in bytes.
	maxMessage = 2 << 10
)

// CollectorDeps are the dependencies of a [Collector]. Every field is required.
type CollectorDeps struct {
	Store Store
	// Announce sends stored entries to gateways. It fails with unavailable.
	Announce func(ctx context.Context, stored []Entry) error
	// Missed tells gateways that announcements were lost.
	Missed func(ctx context.Context) error
	// Log receives the collector's own failures. Its lines must not reach the collector.
	Log *slog.Logger
	// Keep is the age at which entries are removed, Most the maximum number of entries of a project.
	Keep time.Duration
	Most int
}

// Collector stores log entries within bounds. It is safe for concurrent use.
//
// Goroutines: [Collector.Run] is one.
type Collector struct {
	deps CollectorDeps
	wake chan struct{} // capacity 1

	mu      sync.Mutex // guards the fields below
	waiting []Entry
	flow    map[string]*flow
}

// flow is the rate of entries with the same project, session and run.
type flow struct {
	// full is the time from which a whole burst is accepted again.
	full time.Time
	left int // entries dropped since the last accepted one
}

// NewCollector returns a Collector.
func NewCollector(deps CollectorDeps) *Collector {
	return &Collector{deps: deps, wake: make(chan struct{}, 1), flow: map[string]*flow{}}
}

// Take queues an entry, or drops it if a bound is reached. It sets a missing id and time. It never waits.
func (c *Collector) Take(e Entry) {
	if e.ID == "" {
		e.ID = ident.New()
	}
	now := time.Now()
	if e.TS == 0 {
		e.TS = now.UnixMilli()
	}
	e.Message = clip.Bytes(redact.Mask(clip.Bytes(e.Message, 8*maxMessage)), maxMessage)
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.of(e.ProjectID+"\x00"+e.SessionID+"\x00"+e.RunID, now)
	const every = time.Second / perSecond
	if full := later(f.full, now); full.Sub(now) > (burst-1)*every || len(c.waiting) >= maxWaiting {
		f.left++
		return
	}
	f.full = later(f.full, now).Add(every)
	if f.left > 0 {
		c.waiting = append(c.waiting, lost(e, f.left))
		f.left = 0
	}
	c.waiting = append(c.waiting, e)
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// lost returns the warning about n dropped entries before e.
func lost(e Entry, n int) Entry {
	return Entry{
		ID: ident.New(), TS: e.TS, Level: slog.LevelWarn, Source: e.Source,
		Message: fmt.Sprintf("%d entries were dropped: too many at once.", n),
		Owner:   e.Owner, ProjectID: e.ProjectID, SessionID: e.SessionID, RunID: e.RunID,
	}
}

// of returns the flow of a key, which it creates if missing. The caller holds the lock.
func (c *Collector) of(key string, now time.Time) *flow {
	f := c.flow[key]
	if f == nil {
		if len(c.flow) >= maxKeys {
			for k, f := range c.flow {
				if f.left == 0 && f.full.Before(now) {
					delete(c.flow, k)
				}
			}
		}
		if len(c.flow) >= maxKeys {
			key = "" // further flows share one rate
		}
		if f = c.flow[key]; f == nil {
			f = &flow{}
			c.flow[key] = f
		}
	}
	return f
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// The intervals of [Collector.Run].
const (
	trimEvery = 10 * time.Minute
	lastTry   = 2 * time.Second
	gather    = 20 * time.Millisecond // for which an entry waits for others
)

var pauses = retry.Pauses{First: 50 * time.Millisecond, Last: 2 * time.Second}

// Run stores entries until ctx ends, then the waiting ones.
func (c *Collector) Run(ctx context.Context) {
	trim := time.NewTimer(trimEvery / 10)
	defer trim.Stop()
	missed := false
	for {
		select {
		case <-c.wake:
			if retry.Wait(ctx, gather) {
				missed = c.store(ctx, missed)
			}
		case <-trim.C:
			if err := c.deps.Store.Trim(ctx, time.Now().Add(-c.deps.Keep).UnixMilli(), c.deps.Most); err != nil {
				c.deps.Log.Debug("old log entries were not removed; retrying later", "error", err)
			}
			trim.Reset(trimEvery)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTry)
			c.store(last, missed)
			cancel()
			return
		}
	}
}

// store stores the waiting entries. missed says that gateways must still be told of a lost announcement; store
// returns its new value.
func (c *Collector) store(ctx context.Context, missed bool) bool {
	for batch := c.next(); len(batch) > 0; batch = c.next() {
		var stored []Entry
		var err error
		for range pauses.Each(ctx) {
			stored, err = c.deps.Store.Append(ctx, batch)
			if !errors.Is(err, fault.Unavailable) {
				break
			}
		}
		if err != nil {
			if ctx.Err() == nil {
				c.deps.Log.Warn("log entries were not stored", "entries", len(batch), "error", err)
			}
			continue
		}
		if len(stored) > 0 {
			missed = c.deps.Announce(ctx, stored) != nil || missed
		}
	}
	if missed {
		missed = c.deps.Missed(ctx) != nil
	}
	if missed {
		c.again(ctx)
	}
	return missed
}

// again wakes Run after a second to tell gateways of a lost announcement.
func (c *Collector) again(ctx context.Context) {
	timer := time.AfterFunc(time.Second, func() {
		select {
		case c.wake <- struct{}{}:
		default:
		}
	})
	context.AfterFunc(ctx, func() { timer.Stop() })
}

func (c *Collector) next() []Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(c.waiting), maxBatch)
	batch := c.waiting[:n:n]
	c.waiting = c.waiting[n:]
	if len(c.waiting) == 0 {
		c.waiting = nil
	}
	return batch
}
