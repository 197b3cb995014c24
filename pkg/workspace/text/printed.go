package text

import (
	"bytes"
	"unicode/utf8"
)

// Printed turns what a program prints, cut anywhere, into text: invalid UTF-8 becomes U+FFFD, and of a terminal \r\n becomes
// \n. The zero value is ready. It is not safe for concurrent use.
type Printed struct {
	// Terminal says that the program prints on a terminal.
	Terminal bool

	rest []byte // what cannot be decided yet: returns before a possible \n, the beginning of a character
}

// maxUnsettled bounds what waits to be decided; a program that prints nothing but returns would make it grow for ever.
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

// Finish returns what was still undecided: nothing comes after it.
func (p *Printed) Finish() string {
	piece := show(p.rest, p.Terminal)
	p.rest = nil
	return piece
}

// Settled returns how much of data does not depend on what comes next.
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
