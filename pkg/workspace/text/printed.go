package text

import (
	"bytes"
	"unicode/utf8"
)

// Printed turns a program's output, cut anywhere, into text: invalid UTF-8 becomes U+FFFD, and of a
// terminal \r\n becomes \n. The zero value is ready. It is not safe for concurrent use.
type Printed struct {
	// Terminal says that the program prints on a terminal.
	Terminal bool

	rest []byte // what cannot be decided yet: returns before a possible \n, the beginning of a character
}

// maxUnsettled bounds the undecided bytes; a program that prints only returns would make them grow
// for ever.
const maxUnsettled = 4 << 10

// Write takes output and returns the text that is certain.
func (p *Printed) Write(data []byte) string {
	if len(data) == 0 {
		return ""
	}
	if len(p.rest) > 0 {
		data = append(p.rest, data...)
	}
	end := Settled(data, p.Terminal)
	if len(data)-end > maxUnsettled {
		end = len(data)
	}
	piece := show(data[:end], p.Terminal)
	p.rest = append([]byte(nil), data[end:]...)
	return piece
}

// Finish returns the undecided rest at the end of output.
func (p *Printed) Finish() string {
	piece := show(p.rest, p.Terminal)
	p.rest = nil
	return piece
}

// Settled returns the length of the part of data that does not depend on the next bytes.
func Settled(data []byte, terminal bool) int {
	end := whole(data)
	for terminal && end > 0 && data[end-1] == '\r' {
		end--
	}
	return end
}

func show(data []byte, terminal bool) string {
	if terminal {
		data = lineEnds(data)
	}
	if utf8.Valid(data) {
		return string(data)
	}
	return string([]rune(string(data))) // one U+FFFD for each byte, wherever the output was cut
}

// lineEnds returns data with the returns before each \n left out: a terminal adds one to each line, and so do programs
// that already wrote one.
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
