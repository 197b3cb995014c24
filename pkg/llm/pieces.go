package llm

import "strings"

// Sizes of the parts of [Pieces].
const (
	firstPiece   = 256
	largestPiece = 64 << 10
)

// Pieces collects a text that arrives in pieces. It needs little more memory than the text. A growing strings.Builder
// needs up to twice as much, and leaves as much again to the garbage collector. The zero value is empty.
type Pieces struct {
	parts [][]byte // all are full except the last
	size  int
}

// WriteString appends s.
func (p *Pieces) WriteString(s string) {
	p.size += len(s)
	for len(s) > 0 {
		n := len(p.parts)
		if n == 0 || len(p.parts[n-1]) == cap(p.parts[n-1]) {
			p.parts = append(p.parts, make([]byte, 0, p.next(len(s))))
			n++
		}
		last := &p.parts[n-1]
		room := min(cap(*last)-len(*last), len(s))
		*last = append(*last, s[:room]...)
		s = s[room:]
	}
}

// next returns the size of the next part: the present size, so that the parts are few, within limits.
func (p *Pieces) next(wanted int) int { return min(max(firstPiece, p.size, wanted), largestPiece) }

// Len returns the bytes of the text.
func (p *Pieces) Len() int { return p.size }

// String returns the whole text.
func (p *Pieces) String() string {
	var b strings.Builder
	b.Grow(p.size)
	for _, part := range p.parts {
		b.Write(part)
	}
	return b.String()
}
