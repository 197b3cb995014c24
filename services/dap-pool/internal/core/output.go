package core

import (
	"strings"
	"sync"

	"kaged.dev/pkg/clip"
)

// Output is a piece of a program's output. Offsets count the bytes it ever wrote.
type Output struct {
	Text       string
	From, Next int64
	// Omitted is how many bytes before Text were written and are not shown.
	Omitted int64
}

// ring keeps the end of a program's output. It is safe for concurrent use.
type ring struct {
	most int

	mu    sync.Mutex // guards the fields below
	data  []byte
	end   int64 // bytes ever written
	shown int64 // up to where answers have shown it
}

// write adds output.
func (r *ring) write(data []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end += int64(len(data))
	if len(data) > r.most {
		data = data[len(data)-r.most:]
	}
	r.data = append(r.data, data...)
	if over := len(r.data) - r.most; over > 0 {
		r.data = append(r.data[:0], r.data[over:]...)
	}
}

// next returns the output since the last call, at most the last limit bytes of it.
func (r *ring) next(limit int) Output {
	r.mu.Lock()
	defer r.mu.Unlock()
	from := max(r.shown, r.end-int64(len(r.data)), r.end-int64(limit))
	text := string(r.data[len(r.data)-int(r.end-from):])
	o := Output{Text: strings.ToValidUTF8(text, "\uFFFD"), From: from, Next: r.end, Omitted: from - r.shown}
	r.shown = r.end
	return o
}

// tail returns the end of the output, at most limit bytes, and leaves the mark of next.
func (r *ring) tail(limit int) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(clip.Tail(string(r.data), limit), "\uFFFD"))
}
