package core

import (
	"strings"
	"sync"
	"unicode/utf8"

	"kaged.dev/pkg/clip"
)

// ring stores the end of a program's output. It is safe for concurrent use.
type ring struct {
	most int

	mu    sync.Mutex // guards the fields below
	data  []byte
	end   int64 // the number of bytes ever written
	shown int64 // the offset up to which answers have shown the output
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

// next returns the output since the last call, limited to its last limit bytes.
func (r *ring) next(limit int) Output {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.from(r.shown, limit)
	r.shown = o.Next
	return o
}

// since returns the output from the offset cursor, limited to its last limit bytes. It does not affect next.
func (r *ring) since(cursor int64, limit int) Output {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.from(min(max(cursor, 0), r.end), limit)
}

// from returns the output from the offset cursor, limited to its last limit bytes. r.mu is held.
func (r *ring) from(cursor int64, limit int) Output {
	from := max(cursor, r.end-int64(len(r.data)), r.end-int64(limit))
	text := whole(r.data[len(r.data)-int(r.end-from):])
	return Output{
		Text: strings.ToValidUTF8(string(text), "\uFFFD"), From: from, Next: from + int64(len(text)), Omitted: from - cursor,
	}
}

// whole returns data without an incomplete character at its end.
func whole(data []byte) []byte {
	for i := len(data) - 1; i >= max(0, len(data)-utf8.UTFMax+1); i-- {
		if utf8.RuneStart(data[i]) {
			if !utf8.FullRune(data[i:]) {
				return data[:i]
			}
			break
		}
	}
	return data
}

// tail returns at most limit bytes from the end of the output. It does not affect next.
func (r *ring) tail(limit int) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(clip.Tail(string(r.data), limit), "\uFFFD"))
}
