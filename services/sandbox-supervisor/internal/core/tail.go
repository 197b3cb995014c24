package core

import (
	"context"
	"sync"
)

// tail keeps the end of a command's output for several readers. It accepts each write at once, so that readers never
// slow the command.
type tail struct {
	limit int

	mu      sync.Mutex    // guards the fields below
	ring    []byte        // grows up to limit; byte number n of the output is at n%limit
	end     int64         // number of bytes written
	over    bool          // whether the output has ended
	changed chan struct{} // closed at the next change; nil without waiting readers
}

func newTail(limit int) *tail { return &tail{limit: limit} }

// write adds output.
func (t *tail) write(data []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(data) > 0 {
		n := 0
		if len(t.ring) < t.limit {
			n = min(len(data), t.limit-len(t.ring))
			t.ring = append(t.ring, data[:n]...)
		} else {
			n = copy(t.ring[t.end%int64(t.limit):], data)
		}
		t.end += int64(n)
		data = data[n:]
	}
	t.wake()
}

// close ends the output.
func (t *tail) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	t.wake()
}

// wake wakes waiting readers. The caller holds t.mu.
func (t *tail) wake() {
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}

// bounds returns the range of retained bytes: from start up to end.
func (t *tail) bounds() (start, end int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.end - int64(len(t.ring)), t.end
}

// read copies retained bytes from number from on, or from the first retained byte after it, and returns that byte's
// number. more is closed at new data or at the end of output; it is nil after that end.
func (t *tail) read(from int64, into []byte) (at int64, n int, more <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at = min(max(from, t.end-int64(len(t.ring))), t.end)
	if n = int(min(int64(len(into)), t.end-at)); n > 0 {
		first := copy(into[:n], t.ring[at%int64(t.limit):])
		copy(into[first:n], t.ring)
	}
	if t.over {
		return at, n, nil
	}
	if t.changed == nil {
		t.changed = make(chan struct{})
	}
	return at, n, t.changed
}

// piece is the maximum number of bytes passed to a reader at once.
const piece = 32 << 10

// follow passes on retained data from number from, and with wait new data too, until the end of output, the end of ctx,
// or an error of sink, which it returns. Without wait it ends with the data present at the call, however fast more
// arrives. Slow readers miss bytes.
func (t *tail) follow(ctx context.Context, from int64, wait bool, sink func(at int64, data []byte) error) error {
	_, last := t.bounds()
	for wait || from < last {
		data := make([]byte, piece)
		at, n, more := t.read(from, data)
		if !wait {
			n = int(min(int64(n), max(0, last-at)))
		}
		if n > 0 {
			if err := sink(at, data[:n]); err != nil {
				return err
			}
			from = at + int64(n)
			continue
		}
		if more == nil || !wait {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
