package issues

import (
	"crypto/sha256"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Fold returns the form of a text that is searched. It unifies compatible forms, converts to lower case, keeps letters,
// digits and marks of any script, replaces all other characters beyond ASCII by a space, and puts spaces around
// characters of scripts that have no spaces between words. Postgres would do this according to the locale of the
// database, which may be C.
func Fold(text string) string {
	var b strings.Builder
	for _, r := range norm.NFKC.String(strings.ToLower(norm.NFKC.String(text))) {
		switch {
		case r < 0x80 || unicode.IsMark(r):
			b.WriteRune(r)
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer,
			unicode.Myanmar):
			b.WriteByte(' ')
			b.WriteRune(r)
			b.WriteByte(' ')
		case unicode.IsLetter(r) || unicode.IsNumber(r):
			b.WriteRune(r)
		default:
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// contentHash shows whether a repeated request creates the same issue.
func contentHash(title, body string) []byte {
	sum := sha256.Sum256([]byte(title + "\x00" + body))
	return sum[:]
}
