package patch

import "strings"

// file is a text as lines.
type file struct {
	text   string
	starts []int // beginning of each line, and the end of the text
	// hunks are the wanted hunks. indexes are the positions of their lines by key, for each level; nil until needed.
	hunks   []Hunk
	indexes [levels]map[string]*[]int32
	crlf    int // 0: not counted; 1: \r\n is usual; -1: \n is usual
}

// indexFrom is the minimum number of hunks for which an index pays: it takes one pass over the text instead of one for
// each hunk.
const indexFrom = 8

func newFile(text string, hunks []Hunk) *file {
	f := &file{text: text, starts: make([]int, 1, strings.Count(text, "\n")+2), hunks: hunks}
	for at := 0; at < len(text); {
		next := strings.IndexByte(text[at:], '\n')
		if next < 0 {
			at = len(text)
		} else {
			at += next + 1
		}
		f.starts = append(f.starts, at)
	}
	return f
}

// count returns the number of lines; a non-empty text has at least one.
func (f *file) count() int { return len(f.starts) - 1 }

// line returns a line without its line break.
func (f *file) line(i int) string {
	line := f.text[f.starts[i]:f.starts[i+1]]
	return line[:len(line)-len(f.ending(i))]
}

// ending returns a line's line break, "" for a last line without one.
func (f *file) ending(i int) string {
	end := f.starts[i+1]
	switch {
	case end == 0 || f.text[end-1] != '\n':
		return ""
	case end-f.starts[i] > 1 && f.text[end-2] == '\r':
		return "\r\n"
	}
	return "\n"
}

// usual returns the line break of most lines.
func (f *file) usual() string {
	if f.crlf == 0 {
		f.crlf = -1
		if crlf := strings.Count(f.text, "\r\n"); 2*crlf > strings.Count(f.text, "\n") {
			f.crlf = 1
		}
	}
	if f.crlf > 0 {
		return "\r\n"
	}
	return "\n"
}
