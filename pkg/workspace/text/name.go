package text

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Name returns a file name as one line: quoted where it holds line breaks, control characters or invalid UTF-8.
func Name(name string) string {
	odd := strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || r == utf8.RuneError })
	if odd {
		return strconv.Quote(name)
	}
	return name
}
