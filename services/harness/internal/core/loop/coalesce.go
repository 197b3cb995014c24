package loop

import (
	"fmt"
	"sync"
	"time"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/contract"
)

// largestDelta is the size in bytes at which gathered text is sent at once.
const largestDelta = 32 << 10

// deltaWindow is the shortest time between two deltas of one stream, which clients may rely on. Each delta costs a
// publish to the bus and a write to a socket, so thousands of pieces a second cost at most 200 deltas.
const deltaWindow = 5 * time.Millisecond

// coalescer gathers the pieces of a model's answer, so that thousands of pieces cost few events. The first piece
// after a pause is sent at once. A later piece is sent at the end of the window that began with the last delta. A
// change between text and thinking sends the gathered text. The lock is held while sending, which keeps the order; a
// blocked sink blocks add.
//
// It has one timer. close stops the timer and waits for a running flush.
type coalescer struct {
	emit func(contract.Event) error

	mu       sync.Mutex // guards the fields below
	timer    *time.Timer
	armed    bool
	closed   bool
	last     time.Time // the time of the last flush
	thinking bool      // the kind of the waiting text
	waiting  []byte
	err      error // the sink's error; all text after it is dropped
}

func newCoalescer(emit func(contract.Event) error) *coalescer {
	return &coalescer{emit: emit}
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
		if pause := time.Since(c.last); pause >= deltaWindow {
			c.flush()
		} else {
			c.arm(deltaWindow - pause)
		}
	}
	return c.err
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
	c.closed = true
	if c.timer != nil {
		c.timer.Stop()
	}
	return c.err
}
