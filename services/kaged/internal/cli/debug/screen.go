package debug

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/fault"
)

// refresh is the interval at which a screen reads the state of the program.
const refresh = 300 * time.Millisecond

// keys are the moves on a screen.
var keys = map[rune]string{'c': "continue", 'p': "pause", 'n': "step_over", 's': "step_into", 'o': "step_out"}

const help = "n step over  s step into  o step out  c continue  p pause  u/d frame up/down  e evaluate  q leave"

// debugger is the API that a screen uses.
type debugger interface {
	look(ctx context.Context, frame int, from int64) (seen, error)
	move(ctx context.Context, action, expression string, frame int, wait time.Duration) (moved, error)
}

// screen follows a program on a terminal in raw mode.
type screen struct {
	at    debugger
	out   io.Writer
	every <-chan time.Time
	size  func() (columns, rows int)

	frame   int
	id      string // the id of the shown debug session
	next    int64  // the offset of its next output
	written string
	note    string // shown below the page
	asking  bool   // the operator types an expression
	typed   []rune
	shown   string
}

// follow shows the program until q, the end of input, or the end of ctx.
//
// Goroutines: one that reads keys; it ends with the input.
func (s *screen) follow(ctx context.Context, in io.Reader) error {
	pressed := make(chan rune)
	leave := make(chan struct{})
	defer close(leave)
	go func() {
		defer close(pressed)
		reader := bufio.NewReader(in)
		for {
			r, _, err := reader.ReadRune()
			if err != nil {
				return
			}
			select {
			case pressed <- r:
			case <-leave:
				return
			}
		}
	}()
	s.note = help
	for {
		if err := s.draw(ctx); err != nil {
			return err
		}
		select {
		case key, open := <-pressed:
			if !open || s.press(ctx, key) {
				_, err := io.WriteString(s.out, "\r\n")
				return err
			}
		case <-s.every:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// press executes the action of a key, and reports whether the key leaves the screen.
func (s *screen) press(ctx context.Context, key rune) (leave bool) {
	const interrupt, escape, enter, newline, erase, backspace = 3, 27, '\r', '\n', 127, 8
	if s.asking {
		switch key {
		case enter, newline:
			s.asking = false
			s.evaluate(ctx, string(s.typed))
		case escape, interrupt:
			s.asking, s.note = false, help
		case erase, backspace:
			s.typed = s.typed[:max(0, len(s.typed)-1)]
		default:
			if key >= ' ' {
				s.typed = append(s.typed, key)
			}
		}
		return false
	}
	switch key {
	case 'q', interrupt:
		return true
	case 'e':
		s.asking, s.typed = true, nil
	case 'u':
		s.frame++
	case 'd':
		s.frame = max(0, s.frame-1)
	case '?':
		s.note = help
	default:
		if action, ok := keys[key]; ok {
			s.frame, s.note = 0, help
			if _, err := s.at.move(ctx, action, "", 0, refresh); err != nil {
				s.note = line(fault.From(err).Msg)
			}
		}
	}
	return false
}

// evaluate shows the value of an expression.
func (s *screen) evaluate(ctx context.Context, expression string) {
	if strings.TrimSpace(expression) == "" {
		s.note = help
		return
	}
	m, err := s.at.move(ctx, evaluate, expression, s.frame, time.Second)
	switch {
	case err != nil:
		s.note = line(fault.From(err).Msg)
	case m.Result != nil:
		s.note = line(expression) + " = " + value(*m.Result)
	}
}

// draw reads the state of the program and draws the page if it differs. While the daemon does not answer, it shows that
// and tries again.
func (s *screen) draw(ctx context.Context) error {
	seen, err := s.at.look(ctx, s.frame, s.next)
	var lines []string
	switch {
	case errors.Is(err, fault.Unavailable):
		lines = []string{line(fault.From(err).Msg)}
	case err != nil:
		return err
	default:
		lines = s.page(seen)
	}
	columns, rows := s.size()
	note := s.note
	if s.asking {
		note = "evaluate: " + line(string(s.typed))
	}
	lines = append(lines[:min(len(lines), max(1, rows-2))], "", note)
	for i, text := range lines {
		lines[i] = clip.WithinRunes(text, columns, "…") // a wide character counts as one
	}
	text := strings.Join(lines, "\r\n")
	if text == s.shown {
		return nil
	}
	s.shown = text
	_, err = fmt.Fprintf(s.out, "\x1b[H\x1b[2J%s", text)
	return err
}

// page applies a view and returns its page.
func (s *screen) page(v seen) []string {
	if v.Debug == nil {
		s.id, s.next, s.written = "", 0, ""
		return page(v, "", 0)
	}
	if id := v.Debug.Session.ID; id != s.id {
		first := s.id == "" && s.next == 0
		s.id, s.next, s.written = id, 0, ""
		if !first { // the offset belongs to another program
			return page(v, "", 0)
		}
	}
	s.written = tail(v, s.written)
	if o := v.Debug.State; o != nil && o.Output != nil {
		s.next = o.Output.Next
	}
	if n := len(v.Debug.Frames); n > 0 {
		s.frame = min(s.frame, n-1)
	}
	return page(v, s.written, 8)
}
