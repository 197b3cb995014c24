package search

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// Sizes of the read buffers. A line longer than maxLine is searched in pieces.
const (
	bufferSize = 128 << 10
	maxLine    = 8 << 20
	headSize   = 8000
)

var buffers = sync.Pool{New: func() any { return &buffer{data: make([]byte, bufferSize)} }}

// buffer is the memory of one scan.
type buffer struct {
	data []byte
	next [maxLiterals]int // position of the next match of each literal
}

// Found receives each matching line: its number from 1, its text without line ending, which is only valid during the
// call, and a position of the match, at the latest its end. It returns false to end the scan.
type Found func(line int, text []byte, at int) bool

// Scan calls found for every matching line of a file. A file with a NUL in its first 8000 bytes is binary and has no
// matches, unless a byte order mark identifies it as UTF-16; its lines are passed in UTF-8.
func (p *Pattern) Scan(ctx context.Context, r io.Reader, found Found) error {
	b := buffers.Get().(*buffer)
	s := scanner{ctx: ctx, pattern: p, found: found, line: 1, buffer: b}
	defer s.close()
	filled, err := b.readHead(r)
	order, wide := utf16Order(b.data[:filled])
	if wide && (err == nil || errors.Is(err, io.EOF)) {
		whole := io.MultiReader(bytes.NewReader(bytes.Clone(b.data[:filled])), r)
		r = transform.NewReader(whole, unicode.UTF16(order, unicode.ExpectBOM).NewDecoder())
		filled, err = b.readHead(r)
	}
	if bytes.IndexByte(b.data[:min(filled, headSize)], 0) >= 0 {
		return nil
	}
	if !wide && bytes.HasPrefix(b.data[:filled], mark) {
		filled = copy(b.data, b.data[len(mark):filled])
	}
	for {
		switch {
		case errors.Is(err, io.EOF):
			_, err := s.scan(b.data[:filled])
			return err
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
		if filled == len(b.data) {
			end := bytes.LastIndexByte(b.data, '\n') + 1
			switch {
			case end == 0 && len(b.data) < maxLine:
				b.data = append(b.data, make([]byte, len(b.data))...)
			case end == 0:
				end = filled
				fallthrough
			default:
				if more, err := s.scan(b.data[:end]); !more {
					return err
				}
				filled = copy(b.data, b.data[end:filled])
			}
		}
		var n int
		n, err = r.Read(b.data[filled:])
		filled += n
	}
}

// readHead reads enough of a file to detect its kind, or all of it.
func (b *buffer) readHead(r io.Reader) (filled int, err error) {
	for filled < headSize && err == nil {
		var n int
		n, err = r.Read(b.data[filled:])
		filled += n
	}
	return filled, err
}

// utf16Order returns the byte order of a text with a byte order mark of UTF-16.
func utf16Order(head []byte) (unicode.Endianness, bool) {
	switch {
	case bytes.HasPrefix(head, []byte{0xFF, 0xFE}):
		return unicode.LittleEndian, true
	case bytes.HasPrefix(head, []byte{0xFE, 0xFF}):
		return unicode.BigEndian, true
	}
	return unicode.LittleEndian, false
}

// put returns a buffer to the pool, unless a long line made it large.
func (b *buffer) put() {
	if len(b.data) == bufferSize {
		buffers.Put(b)
	}
}

// scanner reads a file in pieces. Each piece consists of whole lines, except a piece of a line longer than maxLine.
type scanner struct {
	ctx     context.Context
	pattern *Pattern
	found   Found
	line    int // number of the first line of the next piece
	buffer  *buffer
	auto    *automaton // automaton of the pattern, taken on first use
}

// close returns the scan's memory to the pools.
func (s *scanner) close() {
	s.buffer.put()
	if s.auto != nil {
		s.pattern.automata.Put(s.auto)
	}
}

// scan searches one piece and returns false when the scan is over.
func (s *scanner) scan(data []byte) (bool, error) {
	if len(data) == 0 {
		return true, nil
	}
	counted := 0 // end of the counted line breaks
	next, sure := s.seek(data)
	for at := 0; at < len(data); {
		start, err := next(at)
		if err != nil {
			return false, err
		}
		if start < 0 {
			break
		}
		begin := bytes.LastIndexByte(data[:start], '\n') + 1
		end := len(data)
		if i := bytes.IndexByte(data[start:], '\n'); i >= 0 {
			end = start + i
		}
		line, place := data[begin:end], start-begin
		if !sure {
			if place, err = s.match(line); err != nil {
				return false, err
			}
		}
		if place >= 0 {
			s.line += bytes.Count(data[counted:begin], newline)
			counted = begin
			if !s.found(s.line, bytes.TrimSuffix(line, returned), place) {
				return false, nil
			}
		}
		at = end + 1
	}
	s.line += bytes.Count(data[counted:], newline)
	return true, nil
}

// match returns a position of a match in one line, without its \n, or -1.
func (s *scanner) match(line []byte) (int, error) {
	at, err := s.find(line)
	if at >= 0 || err != nil {
		return at, err
	}
	trimmed := bytes.TrimSuffix(line, returned)
	if len(trimmed) == len(line) {
		return -1, nil
	}
	return s.find(trimmed)
}

// find returns a position in the first matching line of data, or -1.
func (s *scanner) find(data []byte) (int, error) {
	if s.auto == nil {
		s.auto, _ = s.pattern.automata.Get().(*automaton)
	}
	return s.auto.find(s.ctx, data)
}

// mark is the byte order mark of UTF-8, which is not part of the first line.
var newline, returned, mark = []byte{'\n'}, []byte{'\r'}, []byte("\uFEFF")

// seek returns a function that finds, from a line's beginning on, a position inside the next line that may match, or
// -1; sure means that the line matches.
func (s *scanner) seek(data []byte) (next func(int) (int, error), sure bool) {
	p := s.pattern
	switch {
	case len(p.needs.any) > 0 && p.needs.usable(data):
		return s.seekLiterals(data), p.needs.exact
	case p.run.n > 0:
		return func(at int) (int, error) { return p.run.next(data, at), nil }, false
	case bytes.Contains(data, []byte("\r\n")), bytes.HasSuffix(data, returned):
		// A match may require the line without its \r, which a search of the whole text would miss, so each line is checked.
		return func(at int) (int, error) { return at, nil }, false
	}
	return func(at int) (int, error) {
		i, err := s.find(data[at:])
		if i < 0 {
			return -1, err
		}
		return at + i, nil
	}, true
}

// seekLiterals finds the next of several texts. It stores the position of each, so that each part of the text is
// searched once.
func (s *scanner) seekLiterals(data []byte) func(int) (int, error) {
	finders := s.pattern.finders
	next := s.buffer.next[:len(finders)]
	for i := range next {
		next[i] = -1
	}
	return func(at int) (int, error) {
		first := -1
		for i := range finders {
			if next[i] < at {
				if next[i] = finders[i].index(data[at:]); next[i] < 0 {
					next[i] = gone
				} else {
					next[i] += at
				}
			}
			if next[i] != gone && (first < 0 || next[i] < first) {
				first = next[i]
			}
		}
		return first, nil
	}
}

// gone is the position of a text that does not occur again.
const gone = int(^uint(0) >> 1)
