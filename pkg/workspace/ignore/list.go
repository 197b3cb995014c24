package ignore

import (
	"bytes"
	"strings"
)

// List is the patterns of one file. It is immutable; a nil List is empty.
type List struct {
	patterns []pattern
	fold     bool
}

// kind is how a pattern is compared; the simple ones are by far the most and need no wildmatch.
type kind int

const (
	literal kind = iota
	suffix       // an asterisk and a literal
	wildcard
)

type pattern struct {
	text    string
	kind    kind
	negated bool // "!": a match is not ignored after all
	dirOnly bool // a trailing slash: only folders
	base    bool // no slash: any name below, else the path from the file's folder
}

// maxPatterns bounds one file; no real one comes near.
const maxPatterns = 10_000

// Parse reads a file of patterns. fold makes letters match in either case, as core.ignoreCase does.
func Parse(content []byte, fold bool) *List {
	content = bytes.TrimPrefix(content, []byte("\xEF\xBB\xBF"))
	l := &List{fold: fold}
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		if p, ok := parse(line); ok && len(l.patterns) < maxPatterns {
			l.patterns = append(l.patterns, p)
		}
	}
	if len(l.patterns) == 0 {
		return nil
	}
	return l
}

func parse(line string) (pattern, bool) {
	if line == "" || line[0] == '#' {
		return pattern{}, false
	}
	var p pattern
	text := trimSpaces(line)
	if text, p.negated = strings.CutPrefix(text, "!"); text == "" {
		return pattern{}, false
	}
	text, p.dirOnly = strings.CutSuffix(text, "/")
	p.base = !strings.Contains(text, "/")
	p.text = strings.TrimPrefix(text, "/")
	switch specials := strings.IndexAny(p.text, `*?[\`); {
	case specials < 0:
		p.kind = literal
	case p.base && p.text[0] == '*' && !strings.ContainsAny(p.text[1:], `*?[\`):
		p.kind, p.text = suffix, p.text[1:]
	default:
		p.kind = wildcard
	}
	return p, true
}

// trimSpaces cuts trailing spaces unless a backslash stands before them.
func trimSpaces(line string) string {
	last := -1
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case ' ':
			if last < 0 {
				last = i
			}
			continue
		case '\\':
			if i++; i == len(line) {
				return line
			}
		}
		last = -1
	}
	if last >= 0 {
		return line[:last]
	}
	return line
}

// verdict is the decision of a list on a name.
type verdict int

const (
	silent verdict = iota
	ignored
	kept
)

// match returns the verdict of the last matching pattern. base is the length of the path from the
// repository's root to the list's folder.
func (l *List) match(s *subject, base int) verdict {
	if l == nil {
		return silent
	}
	for i := len(l.patterns) - 1; i >= 0; i-- {
		p := &l.patterns[i]
		if p.dirOnly && !s.isDir {
			continue
		}
		text := s.name
		if !p.base {
			if p.kind == literal && !l.fold && !strings.HasSuffix(p.text, s.name) {
				continue // not even the last component is the same
			}
			text = s.from(base)
		}
		if p.matches(text, l.fold, &s.steps) {
			if p.negated {
				return kept
			}
			return ignored
		}
	}
	return silent
}

func (p *pattern) matches(subject string, fold bool, steps *int) (matched bool) {
	switch p.kind {
	case literal:
		return equal(p.text, subject, fold)
	case suffix:
		cut := len(subject) - len(p.text)
		return cut >= 0 && equal(p.text, subject[cut:], fold)
	}
	matched, *steps = wildmatch(p.text, subject, !p.base, fold, *steps)
	return matched
}

func equal(a, b string, fold bool) bool {
	if !fold {
		return a == b
	}
	if len(a) != len(b) {
		return false
	}
	w := wild{fold: true}
	for i := range len(a) {
		if w.lower(a[i]) != w.lower(b[i]) {
			return false
		}
	}
	return true
}
