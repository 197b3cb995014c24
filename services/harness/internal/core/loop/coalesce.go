package loop

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/contract"
)

// largestDelta is the size in bytes at which gathered text is sent at once.
const largestDelta = 32 << 10

// deltaWindow is the shortest time between two deltas of one stream, which clients may rely on. Each delta costs a
// publish to the bus and a write to a socket, so thousands of pieces a second cost at most 200 deltas.
const deltaWindow = 5 * time.Millisecond

// manyStreams is the number of streams from which on they send their deltas at the same moments. A delta then waits
// half a window more in the middle. That is most of the delay among twenty streams, but not among a hundred on two
// cores.
const manyStreams = 64

// Beat counts the streams of a process. From [manyStreams] on, all of them send their deltas at the same moments,
// [deltaWindow] apart: the goroutines that carry the deltas on wake once for many streams. The zero
// Beat has no streams; it is safe for concurrent use.
type Beat struct{ streams atomic.Int64 }

// wait returns the time from now to the next common moment, at most deltaWindow. The moments follow the wall clock, so
// that streams need no common state; a step of the clock only moves them.
func (b *Beat) wait(now time.Time) time.Duration {
	return deltaWindow - time.Duration(now.UnixNano())%deltaWindow
}

// coalescer gathers the pieces of a model's answer, so that thousands of pieces cost few events. The first piece
// after a pause is sent at once. A later piece is sent at the end of the window that began with the last delta. Among
// many streams, each piece but the answer's first is sent at the next moment of the beat. A change between text and
// thinking sends the gathered text. The lock is held while sending, which keeps the order; a blocked sink blocks add.
//
// It has one timer. close stops the timer and waits for a running flush.
type coalescer struct {
	emit func(contract.Event) error
	beat *Beat

	mu       sync.Mutex // guards the fields below
	timer    *time.Timer
	armed    bool
	closed   bool
	last     time.Time // the time of the last flush
	thinking bool      // the kind of the waiting text
	waiting  []byte
	err      error // the sink's error; all text after it is dropped
}

func newCoalescer(beat *Beat, emit func(contract.Event) error) *coalescer {
	beat.streams.Add(1)
	return &coalescer{emit: emit, beat: beat}
}

// add adds a piece. It fails with the sink's error.
func (c *coalescer) add(thinking bool, text string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.thinking != thinking {
		c.flush()
		c.thinking = thinking
	}
	c.waiting = append(c.waiting, text...)
	switch {
	case len(c.waiting) >= largestDelta:
		c.flush()
	case c.armed:
	default:
		c.schedule()
	}
	return c.err
}

// schedule sends the waiting text now or arms the timer. The caller holds mu.
func (c *coalescer) schedule() {
	now := time.Now()
	pause := now.Sub(c.last)
	switch {
	case c.last.IsZero():
		c.flush()
	case c.beat.streams.Load() >= manyStreams:
		c.arm(c.beat.wait(now))
	case pause >= deltaWindow:
		c.flush()
	default:
		c.arm(deltaWindow - pause)
	}
}

func (c *coalescer) arm(d time.Duration) {
	c.armed = true
	if c.timer == nil {
		c.timer = time.AfterFunc(d, c.expired)
		return
	}
	c.timer.Reset(d)
}

// expired sends the waiting text in the timer's goroutine.
func (c *coalescer) expired() {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() {
		if r := recover(); r != nil {
			c.err = fmt.Errorf("sending text panicked: %v", r)
		}
	}()
	if c.armed && !c.closed {
		c.armed = false
		c.flush()
	}
}

// flush sends the waiting text. The caller holds mu.
func (c *coalescer) flush() {
	for len(c.waiting) > 0 && c.err == nil {
		n := cut(c.waiting)
		c.err = c.emit(contract.Delta{Thinking: c.thinking, Text: string(c.waiting[:n])})
		c.waiting = append(c.waiting[:0], c.waiting[n:]...)
		c.last = time.Now()
	}
}

// cut returns the number of bytes of b that go into one delta. It ends at a character boundary.
func cut(b []byte) int {
	if len(b) <= 2*largestDelta {
		return len(b)
	}
	return len(clip.Bytes(b, largestDelta))
}

// close sends the waiting text and stops the timer. No text is sent after it returns. It returns the sink's error.
func (c *coalescer) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flush()
	if !c.closed {
		c.closed = true
		c.beat.streams.Add(-1)
	}
	if c.timer != nil {
		c.timer.Stop()
	}
	return c.err
}
