package lsp

import (
	"unicode/utf8"
)

// Encoding is the unit in which a server counts characters.
type Encoding string

// The encodings of the protocol. UTF16 is the encoding of a server that announces none.
const (
	UTF8  Encoding = "utf-8"
	UTF16 Encoding = "utf-16"
	UTF32 Encoding = "utf-32"
)

// Position is a position in a text: a line from 0, and a character from 0.
type Position struct {
	Line      uint32 `json:"line"`
	Character uint32 `json:"character"`
}

// Range is the text from Start to End.
type Range struct {
	Start Position `json:"start"`
	End   Position `json:"end"`
}

// before reports whether p is before q.
func (p Position) before(q Position) bool {
	return p.Line < q.Line || p.Line == q.Line && p.Character < q.Character
}

// Text is a document's content with the offsets of its lines. A line ends with \n, \r\n or \r.
type Text struct {
	content string
	starts  []int // the offset of each line; the first is 0
}

// NewText returns the text of content.
func NewText(content string) *Text {
	t := &Text{content: content, starts: []int{0}}
	for i := 0; i < len(content); i++ {
		switch content[i] {
		case '\r':
			if i+1 < len(content) && content[i+1] == '\n' {
				i++
			}
			t.starts = append(t.starts, i+1)
		case '\n':
			t.starts = append(t.starts, i+1)
		}
	}
	return t
}

// String returns the content.
func (t *Text) String() string { return t.content }

// Lines returns the number of lines.
func (t *Text) Lines() int { return len(t.starts) }

// Line returns a line without its end, "" after the last line.
func (t *Text) Line(n int) string {
	if n < 0 || n >= len(t.starts) {
		return ""
	}
	end := len(t.content)
	if n+1 < len(t.starts) {
		end = t.starts[n+1]
	}
	line := t.content[t.starts[n]:end]
	for len(line) > 0 && (line[len(line)-1] == '\n' || line[len(line)-1] == '\r') {
		line = line[:len(line)-1]
	}
	return line
}

// Length returns the length of a line without its end.
func (t *Text) Length(n uint32, e Encoding) uint32 {
	line := t.Line(int(n))
	return characterOf(line, len(line), e)
}

// Offset returns the byte of a position. A character after the end of its line is the line's end; a line after the last
// one is the content's end; a character inside a rune is the rune's start.
func (t *Text) Offset(p Position, e Encoding) int {
	if int64(p.Line) >= int64(len(t.starts)) {
		return len(t.content)
	}
	line := t.Line(int(p.Line))
	return t.starts[p.Line] + byteOf(line, p.Character, e)
}

// Position returns the position of a byte.
func (t *Text) Position(offset int, e Encoding) Position {
	offset = min(max(offset, 0), len(t.content))
	low, high := 0, len(t.starts)
	for high-low > 1 {
		if mid := (low + high) / 2; t.starts[mid] <= offset {
			low = mid
		} else {
			high = mid
		}
	}
	line := t.Line(low)
	return Position{Line: uint32(low), Character: characterOf(line, min(offset-t.starts[low], len(line)), e)}
}

// Convert converts a position to another encoding.
func (t *Text) Convert(p Position, from, to Encoding) Position {
	if from == to || int64(p.Line) >= int64(len(t.starts)) {
		return p
	}
	line := t.Line(int(p.Line))
	return Position{Line: p.Line, Character: characterOf(line, byteOf(line, p.Character, from), to)}
}

// byteOf returns the byte of a character in a line.
func byteOf(line string, character uint32, e Encoding) int {
	units, at := uint64(0), 0
	for at < len(line) {
		r, size := utf8.DecodeRuneInString(line[at:])
		units += width(r, size, e)
		if units > uint64(character) {
			return at
		}
		at += size
	}
	return at
}

// characterOf returns the character of a byte in a line.
func characterOf(line string, offset int, e Encoding) uint32 {
	units, at := uint64(0), 0
	for at < offset {
		r, size := utf8.DecodeRuneInString(line[at:])
		if at += size; at > offset {
			break
		}
		units += width(r, size, e)
	}
	return uint32(units)
}

// width returns the number of units of a rune.
func width(r rune, size int, e Encoding) uint64 {
	switch {
	case e == UTF8:
		return uint64(size)
	case e != UTF32 && r > 0xFFFF:
		return 2
	}
	return 1
}
