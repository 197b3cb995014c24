package calls

import (
	"context"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"kaged.dev/pkg/fault"
)

// output sends a tool's output to every reader of the call. The zero value is ready.
type output struct {
	mu      sync.Mutex // guards readers and their fields
	readers []*reader
}

// reader is one reader of a call. If it is too slow, the oldest output is dropped, because the end matters most to
// people.
type reader struct {
	out     *output
	begin   func()        // called at the first output, unless nil
	ready   chan struct{} // holds a token while output waits
	limit   int
	pending []piece
	bytes   int
	skipped bool
}

type piece struct {
	stream string
	text   []byte
}

// skippedNote replaces output that was dropped because the reader was too slow.
const skippedNote = "\n[output skipped]\n"

func (o *output) subscribe(limit int) *reader {
	r := &reader{out: o, ready: make(chan struct{}, 1), limit: limit}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.readers = append(o.readers, r)
	return r
}

func (o *output) unsubscribe(r *reader) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.readers = slices.DeleteFunc(o.readers, func(have *reader) bool { return have == r })
}

func (o *output) emit(stream, text string) {
	if text == "" {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.readers {
		r.add(stream, text)
	}
}

func (r *reader) add(stream, text string) {
	if n := len(r.pending); n > 0 && r.pending[n-1].stream == stream {
		r.pending[n-1].text = append(r.pending[n-1].text, text...)
	} else {
		r.pending = append(r.pending, piece{stream, []byte(text)})
	}
	if r.bytes += len(text); r.bytes > r.limit {
		r.drop(r.bytes - r.limit/2)
	}
	if r.begin != nil {
		r.begin()
		r.begin = nil
	}
	select {
	case r.ready <- struct{}{}:
	default:
	}
}

// drop drops the first n waiting bytes, and the rest of a cut character.
func (r *reader) drop(n int) {
	r.skipped = true
	for n > 0 && len(r.pending) > 0 {
		oldest := &r.pending[0]
		cut := min(n, len(oldest.text))
		for cut < len(oldest.text) && !utf8.RuneStart(oldest.text[cut]) {
			cut++
		}
		oldest.text = oldest.text[cut:]
		r.bytes -= cut
		n -= cut
		if len(oldest.text) == 0 {
			r.pending = r.pending[1:]
		}
	}
}

// deliver passes output to show until done is closed, the last output included. It fails with show's error and ctx's.
func (r *reader) deliver(
	ctx context.Context, done <-chan struct{}, every time.Duration, show func(stream, text string) error,
) error {
	var last time.Time
	var due <-chan time.Time
	for {
		select {
		case <-r.ready:
			// Later output waits for the interval since the last delivery; the first is delivered at once.
			due = time.After(max(0, every-time.Since(last)))
		case <-due:
			if err := r.flush(show); err != nil {
				return err
			}
			last, due = time.Now(), nil
		case <-done:
			return r.flush(show)
		case <-ctx.Done():
			return fault.From(ctx.Err())
		}
	}
}

// flush sends the waiting output.
func (r *reader) flush(show func(stream, text string) error) error {
	r.out.mu.Lock()
	pending, skipped := r.pending, r.skipped
	r.pending, r.bytes, r.skipped = nil, 0, false
	r.out.mu.Unlock()
	for i, p := range pending {
		text := string(p.text)
		if i == 0 && skipped {
			text = skippedNote + text
		}
		if err := show(p.stream, text); err != nil {
			return err
		}
	}
	return nil
}
