package wire

import (
	"bytes"
	"errors"
	"io"
)

// Event is one server-sent event. Data is valid until the next call of [Reader.Next].
type Event struct {
	// Name is the event's name, empty if the server gives none.
	Name string
	// Data is the event's data, its lines joined by line feeds.
	Data []byte
}

// errTooLarge reports that a provider sent more data than a call may hold.
var errTooLarge = errors.New("more data than the limit allows")

// Reader splits a stream into server-sent events as the HTML standard describes them: lines may end in LF, CR or CRLF,
// comments and unknown fields are skipped, and data may span lines. Unlike the standard, it delivers an event cut off
// by the end of the stream; the decoder decides whether its data is complete.
//
// A Reader holds at most one event and reuses its memory; it is for one goroutine.
type Reader struct {
	src   io.Reader
	buf   []byte
	start int
	end   int
	limit int
	// skipLF is set after a line that ended in CR: a following LF belongs to it.
	skipLF bool
	begun  bool
	eof    bool
	name   string
	data   []byte
}

// NewReader returns a Reader for src that refuses events of more than limit bytes.
func NewReader(src io.Reader, limit int) *Reader {
	return &Reader{src: src, buf: make([]byte, 4096), limit: limit}
}

// Next returns the next event with data. It returns io.EOF at the end of the stream, or the read error.
func (r *Reader) Next() (Event, error) {
	r.data = r.data[:0]
	named, filled := false, false
	for {
		line, err := r.line()
		if err != nil {
			if filled && errors.Is(err, io.EOF) {
				return r.event(named), nil
			}
			return Event{}, err
		}
		if len(line) == 0 {
			if filled {
				return r.event(named), nil
			}
			named = false
			continue
		}
		field, value, _ := bytes.Cut(line, []byte{':'})
		value = bytes.TrimPrefix(value, []byte{' '})
		switch string(field) {
		case "event":
			named = true
			// Streams repeat few names; the comparison saves an allocation for each event.
			if string(value) != r.name {
				r.name = string(value)
			}
		case "data":
			if len(r.data)+len(value) > r.limit {
				return Event{}, errTooLarge
			}
			if filled {
				r.data = append(r.data, '\n')
			}
			r.data = append(r.data, value...)
			filled = true
		}
	}
}

func (r *Reader) event(named bool) Event {
	if !named {
		return Event{Data: r.data}
	}
	return Event{Name: r.name, Data: r.data}
}

// line returns the next line without its ending, valid until the next call. The last line may lack an ending.
func (r *Reader) line() ([]byte, error) {
	scanned := 0
	for {
		if r.skipLF && r.start < r.end {
			if r.buf[r.start] == '\n' {
				r.start++
			}
			r.skipLF = false
		}
		window := r.buf[r.start:r.end]
		if i := lineEnd(window[scanned:]); i >= 0 {
			i += scanned
			r.skipLF = window[i] == '\r'
			r.start += i + 1
			return r.trimBOM(window[:i]), nil
		}
		scanned = len(window)
		if r.eof {
			if len(window) == 0 {
				return nil, io.EOF
			}
			r.start = r.end
			return r.trimBOM(window), nil
		}
		if err := r.fill(); err != nil {
			return nil, err
		}
	}
}

// lineEnd returns the index of the first CR or LF, -1 without one. Two searches for one byte are faster than one search
// for both.
func lineEnd(b []byte) int {
	lf := bytes.IndexByte(b, '\n')
	if lf >= 0 {
		b = b[:lf]
	}
	if cr := bytes.IndexByte(b, '\r'); cr >= 0 {
		return cr
	}
	return lf
}

// trimBOM drops the byte order mark that a stream may begin with.
func (r *Reader) trimBOM(line []byte) []byte {
	if !r.begun {
		r.begun = true
		return bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	return line
}

// fill reads more data, after making room.
func (r *Reader) fill() error {
	if r.start > 0 {
		r.end = copy(r.buf, r.buf[r.start:r.end])
		r.start = 0
	}
	if r.end == len(r.buf) {
		// The additional bytes are for the field name, which does not count towards the limit.
		if len(r.buf) > r.limit+64 {
			return errTooLarge
		}
		r.buf = append(r.buf, make([]byte, len(r.buf))...)
	}
	n, err := r.src.Read(r.buf[r.end:])
	r.end += n
	if errors.Is(err, io.EOF) {
		r.eof = true
		return nil
	}
	if n > 0 {
		// Events received with an error are delivered first; the next read returns the error again.
		return nil
	}
	return err
}
