package text

import (
	"bytes"
	"encoding/binary"
	"io"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"

	utf16x "golang.org/x/text/encoding/unicode"
)

// Encoding is how a text file is stored.
type Encoding int

// The encodings. UTF8 stands for everything without a byte order mark.
const (
	UTF8 Encoding = iota
	UTF8BOM
	UTF16LE
	UTF16BE
)

var marks = map[Encoding][]byte{
	UTF8BOM: {0xEF, 0xBB, 0xBF},
	UTF16LE: {0xFF, 0xFE},
	UTF16BE: {0xFE, 0xFF},
}

// EncodingOf tells the encoding by the byte order mark.
func EncodingOf(head []byte) Encoding {
	for encoding, mark := range marks {
		if bytes.HasPrefix(head, mark) {
			return encoding
		}
	}
	return UTF8
}

// Decode returns a file's text without its byte order mark, and its encoding. ok is false if the
// bytes are not valid in their encoding. UTF-8 is not copied, because copies are most of the cost
// of an edit of a large file: data must not be changed any more.
func Decode(data []byte) (text string, encoding Encoding, ok bool) {
	encoding = EncodingOf(data)
	body := data[len(marks[encoding]):]
	if encoding == UTF8 || encoding == UTF8BOM {
		return unsafe.String(unsafe.SliceData(body), len(body)), encoding, utf8.Valid(body)
	}
	if len(body)%2 != 0 {
		return "", encoding, false
	}
	order := byteOrder(encoding)
	units := make([]uint16, len(body)/2)
	for i := range units {
		units[i] = order.Uint16(body[2*i:])
	}
	decoded := string(utf16.Decode(units))
	// A lone surrogate decodes to U+FFFD and would not come back as it was.
	return decoded, encoding, bytes.Equal(Encode(decoded, encoding), data)
}

// Encode is the reverse of [Decode]. It returns an empty slice and not nil for no text. UTF-8 is not copied: the bytes
// must not be changed.
func Encode(text string, encoding Encoding) []byte {
	if encoding == UTF8 && text != "" {
		return unsafe.Slice(unsafe.StringData(text), len(text))
	}
	out := append(make([]byte, 0, len(marks[encoding])+len(text)), marks[encoding]...)
	if encoding == UTF8 || encoding == UTF8BOM {
		return append(out, text...)
	}
	order := byteOrder(encoding)
	for _, unit := range utf16.Encode([]rune(text)) {
		out = order.AppendUint16(out, unit)
	}
	return out
}

type order interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

func byteOrder(encoding Encoding) order {
	if encoding == UTF16BE {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// NewReader returns a reader of the text in r, which holds a whole file, as UTF-8 without byte
// order mark. head is the file's beginning. Invalid bytes read as U+FFFD in UTF-16 and unchanged in
// UTF-8.
func NewReader(head []byte, r io.Reader) io.Reader {
	switch encoding := EncodingOf(head); encoding {
	case UTF16LE:
		return utf16x.UTF16(utf16x.LittleEndian, utf16x.ExpectBOM).NewDecoder().Reader(r)
	case UTF16BE:
		return utf16x.UTF16(utf16x.BigEndian, utf16x.ExpectBOM).NewDecoder().Reader(r)
	case UTF8BOM:
		return &skipping{r, len(marks[encoding])}
	}
	return r
}

// skipping leaves out the first n bytes.
type skipping struct {
	r io.Reader
	n int
}

func (s *skipping) Read(p []byte) (int, error) {
	for s.n > 0 {
		n, err := s.r.Read(p[:min(len(p), s.n)])
		if s.n -= n; err != nil {
			return 0, err
		}
	}
	return s.r.Read(p)
}
