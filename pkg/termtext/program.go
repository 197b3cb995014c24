package termtext

import (
	"bytes"
	"io"
)

// Program filters the output of a program in its own terminal for another terminal. Drawing passes. Strings for the
// terminal itself, such as its title, its clipboard or the definition of a key, are removed, and so are changes of its
// window. In a replay questions are removed too, because the terminal's answers would become input. Sequences may be
// split over several writes. It is for one goroutine.
type Program struct {
	w      io.Writer
	replay bool
	out    []byte
	state  programState
	held   []byte // the beginning of a sequence
	length int    // length of a string
	more   int    // bytes of a character still to come
}

type programState int

const (
	ground      programState = iota
	afterEsc                 // after ESC
	intro                    // after 0xC2, which begins a C1 control
	control1                 // in a control sequence
	stringed                 // in a string
	stringEsc                // in a string, after ESC
	stringIntro              // in a string, after 0xC2
)

// The maximum lengths of a control sequence and of a string. Longer ones are dropped.
const (
	maxSequence = 256
	maxString   = 64 << 10
)

// NewProgram returns a Program that writes to w.
func NewProgram(w io.Writer) *Program { return &Program{w: w} }

// Replay sets whether the next writes are old output.
func (p *Program) Replay(old bool) { p.replay = old }

// Write implements [io.Writer]. It returns len(data) unless w fails.
func (p *Program) Write(data []byte) (int, error) {
	p.out = p.out[:0]
	for _, b := range data {
		p.take(b)
	}
	if len(p.out) == 0 {
		return len(data), nil
	}
	if _, err := p.w.Write(p.out); err != nil {
		return 0, err
	}
	return len(data), nil
}

const (
	esc = 0x1b
	bel = 0x07
)

// take processes one byte in the present state.
func (p *Program) take(b byte) {
	switch p.state {
	case ground:
		p.draw(b)
	case afterEsc:
		p.escape(b)
	case intro:
		if p.state = ground; b >= 0x80 && b < 0xa0 {
			p.c1(b)
			return
		}
		p.out = append(p.out, 0xc2)
		p.draw(b)
	case control1:
		p.sequence(b)
	case stringed, stringEsc, stringIntro:
		p.inString(b)
	}
}

// draw processes a byte outside of sequences.
func (p *Program) draw(b byte) {
	switch {
	case b == esc:
		p.state, p.more = afterEsc, 0
	case b == 0xc2:
		p.state, p.more = intro, 0
	case b == 0x05: // the terminal would answer this control
	case b < 0x80:
		p.more = 0
		p.out = append(p.out, b)
	case b < 0xc0 && p.more > 0:
		p.more--
		p.out = append(p.out, b)
	case b < 0xa0: // an eight-bit control
	default:
		p.more = continued(b)
		p.out = append(p.out, b)
	}
}

// continued returns the number of bytes that follow the first byte of a character.
func continued(b byte) int {
	switch {
	case b >= 0xf0:
		return 3
	case b >= 0xe0:
		return 2
	case b >= 0xc0:
		return 1
	}
	return 0
}

// escape processes the byte after ESC.
func (p *Program) escape(b byte) {
	p.state = ground
	switch b {
	case '[':
		p.state, p.held = control1, append(p.held[:0], esc, '[')
	case ']', 'P', 'X', '^', '_':
		p.state, p.length = stringed, 0
	case esc:
		p.state = afterEsc
	case 'Z':
		if !p.replay {
			p.out = append(p.out, esc, b)
		}
	default:
		switch {
		case b < 0x20:
			p.draw(b)
		case b < 0x80:
			p.out = append(p.out, esc, b)
		}
	}
}

// c1 processes an eight-bit control, without its first byte.
func (p *Program) c1(b byte) {
	if b >= 0x80 && b <= 0x9f {
		p.escape(b - 0x40)
	}
}

// sequence processes a byte of a control sequence.
func (p *Program) sequence(b byte) {
	switch {
	case b == esc:
		p.state = afterEsc
	case b == 0x18 || b == 0x1a:
		p.state = ground
	case b >= 0x40 && b <= 0x7e:
		p.state = ground
		if p.passes(b) {
			p.out = append(append(p.out, p.held...), b)
		}
	case b < 0x20 || b >= 0x7f: // controls inside the sequence are dropped
	case len(p.held) >= maxSequence:
		p.state = ground
	default:
		p.held = append(p.held, b)
	}
}

// passes reports whether a control sequence with the given final byte draws.
func (p *Program) passes(final byte) bool {
	switch final {
	case 't':
		return false
	case 'c', 'n', 'x':
		return !p.replay
	case 'p':
		return !p.replay || !bytes.ContainsRune(p.held, '$')
	case 'q':
		return !p.replay || !bytes.ContainsRune(p.held, '>')
	}
	return true
}

// inString processes a byte of a string, which ends with BEL, ST, or the beginning of another sequence.
func (p *Program) inString(b byte) {
	state := p.state
	p.state = stringed
	p.length++
	switch {
	case state == stringEsc && b != '\\':
		p.escape(b)
	case state == stringEsc, state == stringIntro && b == 0x9c, b == bel, b == 0x18, b == 0x1a, p.length > maxString:
		p.state = ground
	case b == esc:
		p.state = stringEsc
	case b == 0xc2:
		p.state = stringIntro
	}
}
