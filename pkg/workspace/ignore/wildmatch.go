package ignore

import "strings"

// The outcomes of a match. The aborts mean that no other match of the part before can help, which
// keeps a pattern full of asterisks from trying them all.
type outcome int

const (
	match outcome = iota
	noMatch
	abortAll
	abortToStarStar
)

// Bounds of the steps of one pattern for one name, and of all patterns together: "**" can still
// multiply, a file may hold thousands of patterns that do, and a class may be as long as the file.
// A longer match fails. Ordinary ones take about as many steps as the name has bytes.
const (
	maxSteps   = 20_000
	maxSubject = 500_000
)

// wild is one attempt to match, as git's wildmatch does it.
type wild struct {
	path bool // "*" and "?" do not match a slash, "**" does
	fold bool // letters match in either case
	left int  // steps it may take
}

// wildmatch reports whether text matches pattern, and how many of the steps are left.
func wildmatch(pattern, text string, path, fold bool, steps int) (matched bool, left int) {
	w := wild{path: path, fold: fold, left: min(steps, maxSteps)}
	before := w.left
	matched = w.match(pattern, text) == match
	return matched, steps - (before - max(w.left, 0))
}

func (w *wild) lower(c byte) byte {
	if w.fold && 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// at returns the byte of s at i, 0 behind its end; names and patterns hold no zero bytes.
func at(s string, i int) byte {
	if i < len(s) {
		return s[i]
	}
	return 0
}

func (w *wild) match(pattern, text string) outcome {
	if w.left--; w.left < 0 {
		return abortAll
	}
	t := 0
	for p := 0; p < len(pattern); p++ {
		c, have := w.lower(pattern[p]), w.lower(at(text, t))
		if have == 0 && c != '*' {
			return abortAll
		}
		switch c {
		case '\\':
			// The next byte stands for itself, in its own case.
			if p++; at(pattern, p) != have {
				return noMatch
			}
		case '?':
			if w.path && have == '/' {
				return noMatch
			}
		case '*':
			return w.star(pattern, p, text[t:])
		case '[':
			end, in := w.class(pattern, p+1, have)
			if end < 0 {
				return abortAll
			}
			if !in || w.path && have == '/' {
				return noMatch
			}
			p = end
		default:
			if c != have {
				return noMatch
			}
		}
		t++
	}
	if t < len(text) {
		return noMatch
	}
	return match
}

// star matches from an asterisk at pattern[p] on.
func (w *wild) star(pattern string, p int, text string) outcome {
	before := p - 1
	slashes := !w.path
	if p++; at(pattern, p) == '*' {
		for at(pattern, p) == '*' {
			p++
			w.left--
		}
		rest := pattern[p:]
		if w.path && (before < 0 || pattern[before] == '/') &&
			(rest == "" || rest[0] == '/' || strings.HasPrefix(rest, `\/`)) {
			// "**/" also matches the empty path, so that a/**/b matches a/b.
			if strings.HasPrefix(rest, "/") && w.match(rest[1:], text) == match {
				return match
			}
			slashes = true
		}
	}
	rest := pattern[p:]
	slash := strings.IndexByte(text, '/')
	switch {
	case rest == "" && !slashes && slash >= 0:
		return noMatch
	case rest == "":
		return match
	case !slashes && rest[0] == '/' && slash < 0:
		return noMatch
	case !slashes && rest[0] == '/':
		// One asterisk and a slash: the rest of this component.
		return w.match(rest[1:], text[slash+1:])
	}
	return w.tries(rest, text, slashes)
}

// tries matches rest at each place of text an asterisk before it may reach.
func (w *wild) tries(rest, text string, slashes bool) outcome {
	for ; text != ""; text = text[1:] {
		if !special(rest[0]) {
			// The asterisk takes everything up to the next byte that can begin the rest.
			c := w.lower(rest[0])
			for text != "" && w.lower(text[0]) != c && (slashes || text[0] != '/') {
				text = text[1:]
			}
			if w.lower(at(text, 0)) != c {
				return noMatch
			}
		}
		got := w.match(rest, text)
		if got != noMatch && (!slashes || got != abortToStarStar) {
			return got
		}
		if got == noMatch && !slashes && at(text, 0) == '/' {
			return abortToStarStar
		}
	}
	return abortAll
}

// special reports whether c means more than itself in a pattern.
func special(c byte) bool { return c == '*' || c == '?' || c == '[' || c == '\\' }
