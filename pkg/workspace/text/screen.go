package text

import (
	"fmt"
	"strings"

	"kaged.dev/pkg/clip"
)

// Screen collects a command's output on a terminal, as [Printed] reads it, and drops output beyond
// a limit, with a note at the end. It takes all output, so that the command never waits for it. It
// is not safe for concurrent use.
type Screen struct {
	limit   int
	show    func(string)
	printed Printed
	kept    strings.Builder
	over    bool
}

// NewScreen returns a screen that keeps at most limit bytes and hands each new piece to show.
func NewScreen(limit int, show func(string)) *Screen {
	return &Screen{limit: limit, show: show, printed: Printed{Terminal: true}}
}

// Write takes output, cut anywhere.
func (s *Screen) Write(p []byte) {
	if !s.over {
		s.take(s.printed.Write(p))
	}
}

// take keeps a piece, as much as there is room for.
func (s *Screen) take(piece string) {
	room := s.limit - s.kept.Len()
	if len(piece) > room {
		piece, s.over = clip.Bytes(piece, room)+s.note(), true
	}
	s.kept.WriteString(piece)
	if piece != "" {
		s.show(piece)
	}
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

// Finish takes the undecided rest and returns the whole text.
func (s *Screen) Finish() string {
	if !s.over {
		s.take(s.printed.Finish())
	}
	return s.kept.String()
}
