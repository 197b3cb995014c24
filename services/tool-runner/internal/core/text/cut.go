package text

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Prefix returns the longest prefix of s that has at most n bytes and does not end inside a character.
func Prefix(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// Runes returns the first n characters of s and whether that is less than all.
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

// Suffix returns the last n characters of s. Each byte that is none counts as one.
func Suffix(s string, n int) string {
	at := len(s)
	for ; n > 0 && at > 0; n-- {
		_, size := utf8.DecodeLastRuneInString(s[:at])
		at -= size
	}
	return s[at:]
}

// Name returns a file name as one line: quoted where it holds line breaks, control characters or invalid UTF-8.
func Name(name string) string {
	odd := strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || r == utf8.RuneError })
	if odd {
		return strconv.Quote(name)
	}
	return name
}
