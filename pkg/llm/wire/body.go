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
	// Messages is the conversation of the request in normal form; see [llm.Normalize].
	Messages []llm.Message
	// Names encodes the names of its tools.
	Names *Names

	memory *llm.Memory
	encode Encoder
	kept   *beginning
	same   int    // how many of Messages the request before began with
	at     int    // how many of the kept pieces the request begins with so far
	rest   []byte // what follows the settled part
	done   bool   // the part that is kept is settled
}

// beginning is the kept beginning of a body. Its bytes are only appended to: a request that is under way may still read
// those before.
type beginning struct {
	past

	form   string
	pieces []Piece
	stops  []int // offsets in data, of each piece
	data   []byte
	sum    hash.Cloner // of data[:summed]
	summed int
}

// NewWriter begins the body of a request with a conversation: the request's messages, with its note or without. form
// names the encoding: what a memory keeps of another is not used.
func NewWriter(req llm.Request, conversation []llm.Message, form string, encode Encoder) *Writer {
	kept, ok := req.Memory.Take().(*beginning)
	if !ok || kept.form != form {
		kept = &beginning{form: form}
	}
	w := &Writer{memory: req.Memory, encode: encode, kept: kept}
	w.Messages, w.same = kept.follow(conversation, req.Tools)
	w.Names = kept.names
	return w
}

// Resume skips messages that the previous request has encoded: the first messages of the conversation, at most limit.
// It returns the number of skipped messages, and the state that [Writer.Ended] noted after the last one. The encoding
// of a message depends on the message, the state before it, the names of tools, and the key. After a change of the key,
// pieces are compared one by one.
func (w *Writer) Resume(limit int, key string) (messages int, state string) {
	k := w.kept
	if k.key != key {
		w.same, k.key = 0, key
	}
	for n := len(k.ends); n > 0; n-- {
		if end := k.ends[n-1]; end.messages <= min(limit, w.same) {
			k.ends = k.ends[:n]
			w.at = end.pieces
			return end.messages, end.state
		}
	}
	k.ends = nil
	return 0, ""
}

// Ended notes that the first messages of the conversation are written, and the state in which the driver is. The next
// request may resume there.
func (w *Writer) Ended(messages int, state string) {
	if !w.done {
		w.kept.ends = append(w.kept.ends, messageEnd{messages, w.at, state})
	}
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
	k.pieces, k.stops = append(k.pieces, p), append(k.stops, len(k.data))
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
	b := &Body{names: w.Names, ids: k.ids, kept: k.data[:len(k.data):len(k.data)], rest: append(w.rest, end...)}
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
	return e.stops[n-1]
}

// cut leaves the first n pieces. What is appended then is written elsewhere than the bytes that are cut off.
func (e *beginning) cut(n int) {
	e.past.cut(n)
	if n == len(e.pieces) {
		return
	}
	end := e.end(n)
	e.pieces, e.stops, e.data = e.pieces[:n], e.stops[:n], e.data[:end:end]
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

// idCost is the approximate size of an entry of an [idSet].
const idCost = 32

func (e *beginning) size() int {
	return cap(e.data) + cap(e.pieces)*int(unsafe.Sizeof(Piece{})) + 8*cap(e.stops) +
		cap(e.messages)*int(unsafe.Sizeof(llm.Message{})) + cap(e.ends)*int(unsafe.Sizeof(messageEnd{})) +
		e.ids.len()*idCost
}

// Body is the encoded body of a request.
type Body struct {
	names      *Names
	ids        *idSet
	kept, rest []byte
	about      llm.Body
}

// About describes the body.
func (b *Body) About() llm.Body { return b.about }

// Names returns the encoding of the tool names in the body.
func (b *Body) Names() *Names { return b.names }

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
