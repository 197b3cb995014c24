package text

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"kaged.dev/pkg/clip"
)

// Ends collects the first and the last part of a command's output, and drops the middle: the
// beginning tells the command's work, the end its result. It takes all output, so that the command
// never waits for it. It is not safe for concurrent use.
type Ends struct {
	limit   int
	show    func(string)
	printed Printed

	head      []byte
	headRunes int
	last      lastRunes
	all       int // characters so far
}

// NewEnds returns a collector of at most limit characters of output, from a terminal or not, that
// hands each new piece to show.
func NewEnds(limit int, terminal bool, show func(string)) *Ends {
	return &Ends{limit: limit, show: show, printed: Printed{Terminal: terminal}, last: lastRunes{limit: limit}}
}

// Write takes output, cut anywhere.
func (e *Ends) Write(p []byte) { e.take(e.printed.Write(p)) }

func (e *Ends) take(piece string) {
	if piece == "" {
		return
	}
	e.show(piece)
	e.all += utf8.RuneCountInString(piece)
	if room := e.limit - e.headRunes; room > 0 {
		head, _ := clip.Runes(piece, room)
		e.head = append(e.head, head...)
		e.headRunes += utf8.RuneCountInString(head)
		piece = piece[len(head):]
	}
	e.last.add(piece)
}

// Finish takes the undecided rest. No writes may follow.
func (e *Ends) Finish() { e.take(e.printed.Finish()) }

// Len returns how many characters were printed.
func (e *Ends) Len() int { return e.all }

// Text returns the output if it has at most limit characters, and else that many of it, half from
// each end, with a note of the omitted middle. limit must not be greater than that of the
// collector.
func (e *Ends) Text(limit int) string {
	if e.all <= limit {
		return string(e.head) + e.last.text()
	}
	// The head is full: it holds the first output, and both together hold the last.
	first, _ := clip.Runes(string(e.head), limit/2)
	last := lastRunes{limit: limit - limit/2}
	last.add(string(e.head))
	last.add(e.last.text())
	return first + fmt.Sprintf(
		"\n[output truncated \u2014 %d of %d characters left out]\n",
		e.all-limit,
		e.all,
	) + last.text()
}

// lastRunes keeps the last characters added.
type lastRunes struct {
	limit int
	kept  strings.Builder
}

// add appends text. The kept text is cut only at twice its length, so that the cost is that of the
// added text.
func (l *lastRunes) add(text string) {
	if most := l.limit * utf8.UTFMax; len(text) > most {
		text = clip.Tail(text, l.limit)
		l.kept.Reset()
	}
	l.kept.WriteString(text)
	if l.kept.Len() > 2*l.limit*utf8.UTFMax {
		rest := l.text()
		l.kept.Reset()
		l.kept.WriteString(rest)
	}
}

func (l *lastRunes) text() string { return clip.Tail(l.kept.String(), l.limit) }
