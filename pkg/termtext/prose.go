package termtext

import (
	"io"
	"strings"
	"unicode/utf8"
)

// Text returns prose without control characters, bidi controls and invisible format characters. It keeps newlines,
// tabs, joiners, emoji and right-to-left text. A Unicode line or paragraph separator becomes a newline, a byte that is
// not UTF-8 becomes U+FFFD.
func Text(s string) string {
	var p prose
	return p.text(s)
}

// prose removes controls from a text that arrives in pieces.
type prose struct {
	// flag is set after a black flag and the tags that follow it, which together are one emoji.
	flag bool
}

func (p *prose) text(s string) string {
	return strings.Map(func(r rune) rune {
		tag := r >= 0xe0020 && r <= 0xe007f
		switch {
		case tag && p.flag:
			return r
		case r == '\u2028', r == '\u2029':
			p.flag = false
			return '\n'
		case control(r):
			p.flag = false
			return -1
		}
		p.flag = r == blackFlag
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// Writer writes prose to a terminal, filtered as by [Text]. Characters may be split over several writes. It is for one
// goroutine.
type Writer struct {
	w     io.Writer
	prose prose
	cut   []byte // the beginning of an incomplete character
}

// NewWriter returns a Writer that writes to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write implements [io.Writer]. It returns len(data) unless w fails.
func (w *Writer) Write(data []byte) (int, error) {
	text := append(w.cut, data...)
	whole := len(text) - unfinished(text)
	w.cut = append([]byte(nil), text[whole:]...)
	if shown := w.prose.text(string(text[:whole])); shown != "" {
		if _, err := io.WriteString(w.w, shown); err != nil {
			return 0, err
		}
	}
	return len(data), nil
}

// unfinished returns the number of bytes at the end of text that begin an incomplete character.
func unfinished(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if tail := text[len(text)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}
