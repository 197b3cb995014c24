package core

import (
	"context"
	"sync"
)

// tail keeps the end of what a command writes, for many to read. It takes everything at once, so that the command never
// waits for a reader.
type tail struct {
	limit int

	mu      sync.Mutex    // guards what follows
	ring    []byte        // grows up to limit; byte number n of the output stands at n%limit
	end     int64         // how many bytes were written
	over    bool          // nothing more will come
	changed chan struct{} // closed by the next change; nil while nobody waits for one
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

// close says that nothing more will come.
func (t *tail) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	t.wake()
}

// wake wakes those who wait. The caller holds t.mu.
func (t *tail) wake() {
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}

// bounds returns which bytes are kept: those from start up to end.
func (t *tail) bounds() (start, end int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.end - int64(len(t.ring)), t.end
}

// read copies kept bytes from number from on, or from the first one after it that is kept, and returns the first one's
// number. more is closed when there is more to read or nothing more will come; it is nil if the latter is so already.
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

// piece is how many bytes a reader is handed at once.
const piece = 32 << 10

// follow hands over what is kept from number from on, and with wait also what comes, until the end of output, of ctx, or an
// error of sink, which it returns. Without wait it ends with what was there when it began, however fast more comes. Where a
// reader is slower than the command, numbers are left out.
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
