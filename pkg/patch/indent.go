package patch

import "strings"

// indentation converts the indentation of a hunk's lines to that of the file: it has the indentation of known lines,
// and the rule derived from them.
type indentation struct {
	known      map[string]string
	add, strip string
	// Spaces in the hunk for each tab in the file; 0 if unknown, -1 if there is no such rule.
	width int
}

// indentation compares a hunk that fits only with tolerance with the lines of the file; nil if lines are used as
// written.
func (f *file) indentation(h *Hunk, at place) *indentation {
	if at.level < indented {
		return nil
	}
	in := &indentation{known: map[string]string{}}
	line, first := at.line, true
	for _, l := range h.Lines[:at.lines] {
		if l.Op == '+' {
			continue
		}
		theirs, ours := indentOf(l.Text), indentOf(f.line(line))
		line++
		if strings.TrimSpace(l.Text) == "" {
			continue
		}
		if other, ok := in.known[theirs]; ok && other != ours {
			return nil
		}
		in.known[theirs] = ours
		add, strip := difference(ours, theirs), difference(theirs, ours)
		if first {
			in.add, in.strip, first = add, strip, false
		}
		if add != in.add || strip != in.strip {
			in.add, in.strip = "", ""
		}
		if theirs != "" || ours != "" {
			if width := ratio(theirs, ours); in.width == 0 {
				in.width = width
			} else if width != in.width {
				in.width = -1
			}
		}
	}
	return in
}

// adapt returns a new line with the file's indentation.
func (in *indentation) adapt(text string) string {
	if in == nil || strings.TrimSpace(text) == "" {
		return text
	}
	own := indentOf(text)
	rest := text[len(own):]
	if known, ok := in.known[own]; ok {
		return known + rest
	}
	switch {
	case in.width > 0 && strings.Trim(own, " ") == "":
		return strings.Repeat("\t", len(own)/in.width) + own[:len(own)%in.width] + rest
	case in.add != "":
		return in.add + text
	case in.strip != "" && strings.HasPrefix(own, in.strip):
		return text[len(in.strip):]
	}
	return text
}

// difference returns long without its suffix short, "" if short is not a suffix.
func difference(long, short string) string {
	if strings.HasSuffix(long, short) {
		return long[:len(long)-len(short)]
	}
	return ""
}

// ratio returns the number of spaces of one indentation for each tab of the other, -1 if there is no such number.
func ratio(spaces, tabs string) int {
	if spaces == "" || tabs == "" || strings.Trim(spaces, " ") != "" || strings.Trim(tabs, "\t") != "" ||
		len(spaces)%len(tabs) != 0 {
		return -1
	}
	return len(spaces) / len(tabs)
}

func indentOf(line string) string { return line[:len(line)-len(strings.TrimLeft(line, " \t"))] }
