package text

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Screen collects what a command prints on a terminal as text: \r\n becomes \n, invalid UTF-8 becomes U+FFFD, and what is
// beyond a limit is left out with a note at the end. It takes everything, so that the command never waits for it. It is not
// safe for concurrent use.
type Screen struct {
	limit int
	show  func(string)
	kept  strings.Builder
	over  bool
	rest  []byte // what cannot be decided yet: returns before a possible \n, the beginning of a character
}

// maxUnsettled bounds what waits to be decided; a program that prints nothing but returns would make it grow for ever.
const maxUnsettled = 4 << 10

// NewScreen returns a screen that keeps at most limit bytes and hands each new piece to show.
func NewScreen(limit int, show func(string)) *Screen { return &Screen{limit: limit, show: show} }

// Write takes output, cut anywhere.
func (s *Screen) Write(p []byte) {
	if s.over || len(p) == 0 {
		return
	}
	data := p
	if len(s.rest) > 0 {
		data = append(s.rest, p...)
	}
	end := settled(data)
	if len(data)-end > maxUnsettled {
		end = len(data)
	}
	s.take(data[:end])
	s.rest = append([]byte(nil), data[end:]...)
}

// settled returns how much of data does not depend on what comes next.
func settled(data []byte) int {
	end := whole(data)
	for end > 0 && data[end-1] == '\r' {
		end--
	}
	return end
}

// take keeps a settled piece, as much as there is room for.
func (s *Screen) take(data []byte) {
	if len(data) == 0 {
		return
	}
	piece := string(lineEnds(data))
	if !utf8.ValidString(piece) {
		piece = string([]rune(piece)) // one U+FFFD for each byte, wherever the output was cut
	}
	room := s.limit - s.kept.Len()
	if len(piece) > room {
		piece, s.over = Prefix(piece, room)+s.note(), true
	}
	s.kept.WriteString(piece)
	if piece != "" {
		s.show(piece)
	}
}

// lineEnds returns data with the returns before each \n left out: a terminal adds one to each line, and so do programs that
// already wrote one.
func lineEnds(data []byte) []byte {
	if bytes.IndexByte(data, '\r') < 0 {
		return data
	}
	out := make([]byte, 0, len(data))
	for i := 0; i < len(data); {
		end := i
		for end < len(data) && data[end] == '\r' {
			end++
		}
		switch {
		case end == i:
			next := bytes.IndexByte(data[i:], '\r')
			if next < 0 {
				return append(out, data[i:]...)
			}
			end = i + next
			out = append(out, data[i:end]...)
		case end == len(data) || data[end] != '\n':
			out = append(out, data[i:end]...)
		}
		i = end
	}
	return out
}

// note is the last line of output that was cut.
func (s *Screen) note() string {
	size := fmt.Sprintf("%d bytes", s.limit)
	switch {
	case s.limit%(1<<20) == 0:
		size = fmt.Sprintf("%d MB", s.limit>>20)
	case s.limit%(1<<10) == 0:
		size = fmt.Sprintf("%d KB", s.limit>>10)
	}
	return "\n[output truncated \u2014 " + size + " limit]"
}

// Finish takes what was still undecided and returns everything.
func (s *Screen) Finish() string {
	if !s.over {
		s.take(s.rest)
		s.rest = nil
	}
	return s.kept.String()
}
