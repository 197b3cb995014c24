package search

import (
	"bytes"
	"context"
	"io"
	"sync"
)

// Sizes of the buffers files are read into. A line longer than maxLine is searched in pieces.
const (
	bufferSize = 256 << 10
	maxLine    = 8 << 20
	headSize   = 8000
)

var buffers = sync.Pool{New: func() any { return &buffer{data: make([]byte, bufferSize)} }}

// buffer is what one scan works with.
type buffer struct {
	data  []byte
	lower []byte // data in lower case, as far as it is needed
}

// Found is told each matching line: its number from 1 and its text without line ending, which is only valid during the call.
// It returns false to end the scan.
type Found func(line int, text []byte) bool

// Scan tells found every matching line of a file. A file with a NUL in its first 8000 bytes is binary and has none.
func (p *Pattern) Scan(ctx context.Context, r io.Reader, found Found) error {
	b := buffers.Get().(*buffer)
	defer b.put()
	s := scanner{pattern: p, found: found, line: 1, buffer: b}
	filled, first := 0, true
	for {
		n, err := r.Read(b.data[filled:])
		filled += n
		if first && filled > 0 && (filled >= headSize || err != nil || n == 0) {
			if bytes.IndexByte(b.data[:min(filled, headSize)], 0) >= 0 {
				return nil
			}
			if bytes.HasPrefix(b.data[:filled], mark) {
				filled = copy(b.data, b.data[len(mark):filled])
			}
			first = false
		}
		switch {
		case err == io.EOF:
			s.scan(b.data[:filled])
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case filled < len(b.data) || first:
			continue
		}
		end := bytes.LastIndexByte(b.data[:filled], '\n') + 1
		if end == 0 {
			if len(b.data) < maxLine {
				b.data = append(b.data, make([]byte, len(b.data))...)
				continue
			}
			end = filled
		}
		if !s.scan(b.data[:end]) {
			return nil
		}
		filled = copy(b.data, b.data[end:filled])
	}
}

// put gives a buffer back, unless a long line made it large.
func (b *buffer) put() {
	if len(b.data) == bufferSize {
		buffers.Put(b)
	}
}

// scanner goes through a file piece by piece; each piece but a line's is made of whole lines.
type scanner struct {
	pattern *Pattern
	found   Found
	line    int // number of the first line of the next piece
	buffer  *buffer
}

// scan searches one piece and returns false when the scan is over.
func (s *scanner) scan(data []byte) bool {
	if len(data) == 0 {
		return true
	}
	counted := 0 // up to where line breaks are counted
	next := s.seek(data)
	for at := 0; at < len(data); {
		start := next(at)
		if start < 0 {
			break
		}
		begin := bytes.LastIndexByte(data[:start], '\n') + 1
		end := len(data)
		if i := bytes.IndexByte(data[start:], '\n'); i >= 0 {
			end = start + i
		}
		if line := data[begin:end]; s.pattern.exact || s.pattern.Match(line) {
			s.line += bytes.Count(data[counted:begin], newline)
			counted = begin
			if !s.found(s.line, bytes.TrimSuffix(line, returned)) {
				return false
			}
		}
		at = end + 1
	}
	s.line += bytes.Count(data[counted:], newline)
	return true
}

// mark is the byte order mark of UTF-8, which is no part of the first line.
var newline, returned, mark = []byte{'\n'}, []byte{'\r'}, []byte("\uFEFF")

// seek returns a function that finds, from a line's begin on, a place inside the next line that may match, -1 if there is
// none.
func (s *scanner) seek(data []byte) func(int) int {
	p := s.pattern
	switch {
	case len(p.needs.any) > 0 && p.needs.usable(data):
		return s.seekLiterals(data)
	case p.run.n > 0:
		return func(at int) int { return p.run.next(data, at) }
	case bytes.Contains(data, []byte("\r\n")):
		// A match may need the line without its return, which searching the whole would not find: look at each line.
		return func(at int) int { return at }
	}
	return func(at int) int {
		for at < len(data) {
			end := len(data)
			if at+piece < end {
				if i := bytes.IndexByte(data[at+piece:], '\n'); i >= 0 {
					end = at + piece + i + 1
				}
			}
			m := p.expression.FindIndex(data[at:end])
			if m != nil && (at+m[0] < end || data[end-1] != '\n') {
				return at + m[0]
			}
			at = end
		}
		return -1
	}
}

// piece is how much text the expression is asked about at once, up to the next line end: the regular expression package has
// a fast way for short texts and a slow one for long ones.
const piece = 4 << 10

// seekLiterals finds the next of several texts. It remembers where each was found, so that each is looked for once.
func (s *scanner) seekLiterals(data []byte) func(int) int {
	needs := &s.pattern.needs
	if needs.fold {
		s.buffer.lower = lower(s.buffer.lower, data)
		data = s.buffer.lower
	}
	next := make([]int, len(needs.any))
	for i := range next {
		next[i] = -1
	}
	return func(at int) int {
		first := -1
		for i, text := range needs.any {
			if next[i] < at && next[i] != gone {
				if j := bytes.Index(data[at:], []byte(text)); j >= 0 {
					next[i] = at + j
				} else {
					next[i] = gone
				}
			}
			if next[i] != gone && (first < 0 || next[i] < first) {
				first = next[i]
			}
		}
		return first
	}
}

// gone stands for a text that does not occur any more.
const gone = int(^uint(0) >> 1)
