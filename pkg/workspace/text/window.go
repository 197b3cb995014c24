package text

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"

	"kaged.dev/pkg/clip"
)

// Cut marks a line that is not shown whole.
const Cut = "[truncated]"

// Window keeps a numbered piece of a text that is written to it, and counts all its lines. The zero
// value of a limit means none. Lines end in \n or \r\n; text after the last one is a line too
// unless it is empty.
type Window struct {
	// From is the first line to keep, counted from 1. Lines, Bytes and Runes bound how many lines, how many bytes in
	// all and how many characters of a line are kept.
	From, Lines, Bytes, Runes int
	// Plain leaves out the line numbers.
	Plain bool

	content strings.Builder
	line    []byte   // of the line being read, as much of it as can be shown
	long    bool     // the line being read has more
	at      int      // complete lines so far
	kept    int      // lines kept
	full    bool     // no further line is kept
	unended bool     // the text so far does not end in a line break
	digits  [24]byte // room for a line\'s number
}

// Write takes the next bytes of the text; it always takes all.
func (w *Window) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		switch {
		case w.full:
			w.at += bytes.Count(p, newline)
			w.unended = p[len(p)-1] != '\n'
			p = nil
		case w.at+1 < w.From:
			p = w.skip(p)
		default:
			p = w.keep(p)
		}
	}
	return n, nil
}

var newline = []byte{'\n'}

// skip passes over lines before the window and returns the rest.
func (w *Window) skip(p []byte) []byte {
	if breaks := bytes.Count(p, newline); w.at+breaks+1 < w.From {
		w.at += breaks
		w.unended = p[len(p)-1] != '\n'
		return nil
	}
	for w.at+1 < w.From {
		p = p[bytes.IndexByte(p, '\n')+1:]
		w.at++
	}
	w.unended = false
	return p
}

// keep takes the next piece of a line inside the window and returns the rest.
func (w *Window) keep(p []byte) []byte {
	end := bytes.IndexByte(p, '\n')
	piece := p
	if end >= 0 {
		piece = p[:end]
	}
	if room := w.room(len(piece)); room < len(piece) {
		piece, w.long = piece[:room], true
	}
	w.line = append(w.line, piece...)
	w.unended = true
	if end < 0 {
		return nil
	}
	w.endLine()
	return p[end+1:]
}

// room returns how much more of the current line is worth keeping, at most n: a character has at most four bytes.
func (w *Window) room(n int) int {
	if w.Runes == 0 {
		return n
	}
	return min(n, max(0, 4*(w.Runes+1)-len(w.line)))
}

func (w *Window) endLine() {
	w.at++
	w.unended = false
	line, cut := w.line, ""
	if !w.long {
		line = bytes.TrimSuffix(line, returned)
	}
	if !utf8.Valid(line) {
		line = bytes.ToValidUTF8(line, replacement)
	}
	if w.Runes > 0 && len(line) > w.Runes {
		shown, more := clip.Runes(string(line), w.Runes)
		if more || w.long {
			line, cut = line[:len(shown)], Cut
		}
	}
	w.append(line, cut)
	w.line, w.long = w.line[:0], false
}

var returned, replacement = []byte{'\r'}, []byte("\uFFFD")

// append adds a line to the window if there is room for it.
func (w *Window) append(line []byte, cut string) {
	var number []byte
	if !w.Plain {
		number = append(strconv.AppendInt(w.digits[:0], int64(w.at), 10), ": "...)
	}
	if w.Bytes > 0 && w.kept > 0 && w.content.Len()+1+len(number)+len(line)+len(cut) > w.Bytes {
		w.full = true
		return
	}
	if w.kept > 0 {
		w.content.WriteByte('\n')
	}
	w.content.Write(number)
	w.content.Write(line)
	w.content.WriteString(cut)
	w.kept++
	w.full = w.kept == w.Lines
}

// Finish says that the text is at its end; it is called once, before the results are asked for.
func (w *Window) Finish() {
	switch {
	case !w.unended:
	case w.full || w.at+1 < w.From:
		w.at++
	default:
		w.endLine()
	}
}

// Content returns the kept lines, separated by \n.
func (w *Window) Content() string { return w.content.String() }

// Total returns how many lines the text has.
func (w *Window) Total() int { return w.at }

// Next returns the first line after the window, 0 if the text ends with it.
func (w *Window) Next() int {
	if next := max(w.From, 1) + w.kept; next <= w.at && w.full {
		return next
	}
	return 0
}
