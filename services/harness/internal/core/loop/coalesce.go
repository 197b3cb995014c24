package loop

import (
	"fmt"
	"sync"
	"time"
	"unicode/utf8"
)

// window is how long text may wait for more, largestDelta how much of it goes out at once.
const (
	window       = 5 * time.Millisecond
	largestDelta = 32 << 10
)

// coalescer gathers the pieces a model writes, so that a burst of thousands costs few events: the first piece after a
// pause goes out at once, later ones at most window after the piece before, and what was gathered before the kind changes.
// Everything goes out under one lock, so that a blocked sink blocks whoever adds, and order is kept.
//
// It uses one timer; close stops it and waits for a flush on its way.
type coalescer struct {
	emit func(Event) error

	mu       sync.Mutex // guards the fields below
	timer    *time.Timer
	armed    bool
	closed   bool
	last     time.Time // when something last went out
	thinking bool      // the kind of what waits
	waiting  []byte
	err      error // what emit failed with; nothing goes out after that
}

func newCoalescer(emit func(Event) error) *coalescer { return &coalescer{emit: emit} }

// add takes a piece. It fails as the sink does.
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
		if pause := time.Since(c.last); pause >= window {
			c.flush()
		} else {
			c.arm(window - pause)
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

// expired runs in the timer's goroutine.
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

// flush sends what waits. The caller holds mu.
func (c *coalescer) flush() {
	for len(c.waiting) > 0 && c.err == nil {
		n := cut(c.waiting)
		c.err = c.emit(Delta{Thinking: c.thinking, Text: string(c.waiting[:n])})
		c.waiting = append(c.waiting[:0], c.waiting[n:]...)
		c.last = time.Now()
	}
}

// cut returns how much of b goes out at once: whole characters.
func cut(b []byte) int {
	if len(b) <= 2*largestDelta {
		return len(b)
	}
	n := largestDelta
	for n > 0 && !utf8.RuneStart(b[n]) {
		n--
	}
	return n
}

// close sends what waits and ends the timer. Nothing is sent after it has returned. It returns what the sink failed with.
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
