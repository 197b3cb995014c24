package frames

import "unicode/utf8"

// Fit returns how many bytes of s fit, as the inside of a JSON string, into budget bytes. It never cuts a character in
// two; a byte that is no character counts as U+FFFD, which is what it becomes.
func Fit(s string, budget int) int {
	if 6*len(s) <= budget { // no byte takes more
		return len(s)
	}
	used := 0
	for i := 0; i < len(s); {
		cost, size := escaped(s[i:])
		if used += cost; used > budget {
			return i
		}
		i += size
	}
	return len(s)
}

// escaped returns what the first character of s costs inside a JSON string, and its size in s.
func escaped(s string) (cost, size int) {
	switch c := s[0]; {
	case c == '"', c == '\\', c == '\n', c == '\r', c == '\t':
		return 2, 1
	case c < 0x20:
		return len(`\u0000`), 1
	case c < utf8.RuneSelf:
		return 1, 1
	}
	r, size := utf8.DecodeRuneInString(s)
	if r == utf8.RuneError && size == 1 {
		return len("\uFFFD"), 1
	}
	return size, size
}

// Split cuts s into pieces that each fit into budget bytes inside a JSON string. budget is at least the size of one escaped
// character.
func Split(s string, budget int) []string {
	var pieces []string
	for len(s) > 0 {
		n := Fit(s, budget)
		pieces = append(pieces, s[:n])
		s = s[n:]
	}
	return pieces
}
