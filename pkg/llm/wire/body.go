package wire

import (
	"bytes"
	"crypto/sha256"
	"hash"
	"io"
	"net/http"
	"unsafe"

	"github.com/tidwall/gjson"

	"kaged.dev/pkg/llm"
)

// Piece is a part of a conversation with all that its encoding depends on: equal pieces have equal bytes. A driver
// gives the fields their meaning.
type Piece struct {
	// Before is JSON that stands before the piece, unless the piece is encoded as nothing.
	Before string
	// Kind says how the piece is encoded, Flag and Mark are details of it.
	Kind       byte
	Flag, Mark bool
	// ID, Name, Text and Data are the content.
	ID, Name, Text, Data string
}

// Encoder appends the JSON of a piece, without Before, or nothing.
type Encoder func(dst []byte, p Piece) []byte

// Writer makes the body of a request. A body begins with the conversation; pieces that the request before began with
// are not encoded again, and neither are they hashed again.
type Writer struct {
	memory *llm.Memory
	encode Encoder
	kept   *beginning
	at     int    // how many of the kept pieces the request begins with so far
	rest   []byte // what follows the settled part
	done   bool   // the part that is kept is settled
}

// beginning is the kept beginning of a body. Its bytes are only appended to: a request that is under way may still read
// those before.
type beginning struct {
	form   string
	pieces []Piece
	ends   []int // offsets in data, of each piece
	data   []byte
	sum    hash.Cloner // of data[:summed]
	summed int
}

// NewWriter begins a body. form names the encoding: what a memory keeps of another is not used.
func NewWriter(memory *llm.Memory, form string, encode Encoder) *Writer {
	kept, ok := memory.Take().(*beginning)
	if !ok || kept.form != form {
		kept = &beginning{form: form}
	}
	return &Writer{memory: memory, encode: encode, kept: kept}
}

// Add appends a piece and reports whether it was encoded as anything.
func (w *Writer) Add(p Piece) bool {
	if w.done {
		before := len(w.rest)
		w.rest = w.append(w.rest, p)
		return len(w.rest) > before
	}
	k := w.kept
	if w.at < len(k.pieces) {
		if k.pieces[w.at] == p {
			w.at++
			return k.end(w.at) > k.end(w.at-1)
		}
		k.cut(w.at)
	}
	k.data = w.append(k.data, p)
	k.pieces, k.ends = append(k.pieces, p), append(k.ends, len(k.data))
	w.at++
	return k.end(w.at) > k.end(w.at-1)
}

func (w *Writer) append(dst []byte, p Piece) []byte {
	begin := len(dst)
	dst = append(dst, p.Before...)
	inside := len(dst)
	if dst = w.encode(dst, p); len(dst) == inside {
		return dst[:begin]
	}
	return dst
}

// Settle ends the part of the body that is kept: the next request is likely to differ after it.
func (w *Writer) Settle() {
	if !w.done {
		w.kept.cut(w.at)
		w.done = true
	}
}

// Body returns the body, which ends with the given bytes.
func (w *Writer) Body(end []byte) *Body {
	w.Settle()
	k := w.kept
	b := &Body{kept: k.data[:len(k.data):len(k.data)], rest: append(w.rest, end...)}
	k.hash()
	sum, _ := k.sum.Clone() // SHA-256 can always be cloned
	sum.Write(b.rest)
	sum.Sum(b.about.SHA256[:0])
	b.about.Size = int64(len(b.kept) + len(b.rest))
	w.memory.Keep(k, k.size())
	return b
}

// end returns the offset after the first n pieces.
func (e *beginning) end(n int) int {
	if n == 0 {
		return 0
	}
	return e.ends[n-1]
}

// cut leaves the first n pieces. What is appended then is written elsewhere than the bytes that are cut off.
func (e *beginning) cut(n int) {
	if n == len(e.pieces) {
		return
	}
	end := e.end(n)
	e.pieces, e.ends, e.data = e.pieces[:n], e.ends[:n], e.data[:end:end]
	if e.summed > end {
		e.sum, e.summed = nil, 0
	}
}

// hash brings the sum up to the end of the data.
func (e *beginning) hash() {
	if e.sum == nil {
		e.sum = sha256.New().(hash.Cloner)
	}
	e.sum.Write(e.data[e.summed:])
	e.summed = len(e.data)
}

func (e *beginning) size() int {
	return cap(e.data) + cap(e.pieces)*int(unsafe.Sizeof(Piece{})) + 8*cap(e.ends)
}

// Body is the encoded body of a request.
type Body struct {
	kept, rest []byte
	about      llm.Body
}

// About describes the body.
func (b *Body) About() llm.Body { return b.about }

// Bytes returns a copy of the body.
func (b *Body) Bytes() []byte { return append(bytes.Clone(b.kept), b.rest...) }

func (b *Body) reader() (io.ReadCloser, error) {
	return io.NopCloser(io.MultiReader(bytes.NewReader(b.kept), bytes.NewReader(b.rest))), nil
}

// put makes b the body of a request.
func (b *Body) put(req *http.Request) *http.Request {
	req = req.Clone(req.Context())
	req.GetBody = b.reader
	req.Body, _ = b.reader()
	req.ContentLength = b.about.Size
	if req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	return req
}

// AppendString appends a text as JSON, with the escapes of encoding/json.
func AppendString(dst []byte, s string) []byte { return gjson.AppendJSONString(dst, s) }
