// Package clip shortens text without cutting a character in two. A character is a code point; a stray byte counts
// as one.
package clip

import (
	"strings"
	"unicode/utf8"
)

// Bytes returns the longest prefix of s that has at most n bytes and does not end inside a character.
func Bytes[T ~string | ~[]byte](s T, n int) T {
	if len(s) <= n {
		return s
	}
	n = max(n, 0)
	for back := 1; back < utf8.UTFMax && back <= n; back++ {
		if utf8.RuneStart(s[n-back]) {
			if _, size := utf8.DecodeRuneInString(string(s[n-back : min(len(s), n-back+utf8.UTFMax)])); size > back {
				return s[:n-back]
			}
			break
		}
	}
	return s[:n]
}

// Runes returns the first n characters of s and reports whether s has more.
func Runes(s string, n int) (string, bool) {
	if len(s) <= n {
		return s, false
	}
	count := 0
	for i := range s {
		if count == n {
			return s[:i], true
		}
		count++
	}
	return s, false
}

// Tail returns the last n characters of s.
func Tail(s string, n int) string {
	at := len(s)
	for ; n > 0 && at > 0; n-- {
		_, size := utf8.DecodeLastRuneInString(s[:at])
		at -= size
	}
	return s[at:]
}

// Marked returns s if it has at most n bytes, else its first n bytes without a cut character, followed by mark.
func Marked(s string, n int, mark string) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(Bytes(s, n), "") + mark
}

// Lines returns the longest prefix of s that has at most n bytes and consists of whole lines.
func Lines(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:strings.LastIndexByte(s[:max(n, 0)], '\n')+1]
}

// Within is Marked with a result of at most n bytes, the mark included.
func Within(s string, n int, mark string) string {
	if len(s) <= n {
		return s
	}
	return Bytes(s, n-len(mark)) + mark
}

// MarkedRunes returns s if it has at most n characters, else the first n characters followed by mark.
func MarkedRunes(s string, n int, mark string) string {
	if head, cut := Runes(s, n); cut {
		return head + mark
	}
	return s
}

// WithinRunes is MarkedRunes with a result of at most n characters, the mark included.
func WithinRunes(s string, n int, mark string) string {
	if _, more := Runes(s, n); !more {
		return s
	}
	head, _ := Runes(s, max(n-utf8.RuneCountInString(mark), 0))
	return head + mark
}

// JSON returns the longest prefix of s that takes at most n bytes inside a JSON string. An invalid byte takes as much
// as U+FFFD, its replacement.
func JSON(s string, n int) string { return s[:fit(s, n)] }

// JSONPieces cuts s into pieces that each take at most n bytes inside a JSON string. n is at least the size of one
// escaped character, which is 6.
func JSONPieces(s string, n int) []string {
	var pieces []string
	for len(s) > 0 {
		end := fit(s, n)
		pieces = append(pieces, s[:end])
		s = s[end:]
	}
	return pieces
}

func fit(s string, budget int) int {
	if 6*len(s) <= budget { // 6 bytes are the longest escape of a byte
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

// escaped returns the size of the first character of s inside a JSON string, and its size in s.
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
