// Package termtext makes foreign text safe for a terminal: a model's words, a command that waits for approval, a file's
// name, another program's message.
//
// A terminal executes control characters, reorders text between bidi controls, and shows invisible characters as if
// they were absent. There are two policies:
//
//   - [Text] and [Writer] are for prose that people read: they remove such characters and keep everything that is seen.
//   - [Quote], [Cut], [Line] and [Lines] are for decisions: they escape such characters, so that none is missed.
//
// The output of these functions moves the cursor only forward or to the next line. Bytes that are not UTF-8 are
// replaced. Pipes and JSON carry the exact bytes; neither policy is for them.
package termtext

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// control reports whether r is removed from prose: control characters except newline and tab, bidi controls, and
// invisible format characters. Joiners are kept, because scripts and emoji need them, and so are visible signs, of
// Arabic and other scripts, that Unicode counts as format characters.
func control(r rune) bool {
	switch {
	case r == '\n', r == '\t', r == zwnj, r == zwj:
		return false
	case unicode.Is(unicode.Prepended_Concatenation_Mark, r):
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

const (
	zwnj, zwj    = '\u200c', '\u200d'
	blackFlag    = '\U0001F3F4'
	brailleBlank = '\u2800' // the Braille pattern without dots
)

// maxMarks is the maximum number of consecutive combining marks shown on one letter.
const maxMarks = 4

// sight determines which characters of a text are visible in their context.
type sight struct {
	prev  rune
	marks int // number of consecutive combining marks before the next character
}

// visible reports whether r, the next character, is distinguishable from its absence and from a space. The ASCII space
// is the only blank that counts as visible. A combining mark belongs to the letter before it: after any other
// character, or after too many marks, it draws over its neighbours.
func (s *sight) visible(r rune) bool {
	prev, mark := s.prev, unicode.Is(unicode.M, r)
	s.prev = r
	if mark {
		s.marks++
		if s.marks > maxMarks || !unicode.In(prev, unicode.L, unicode.M) {
			return false
		}
	} else {
		s.marks = 0
	}
	return strconv.IsPrint(r) && r != brailleBlank &&
		!unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// escaped returns s with every character escaped that is invisible and not in keep, in Go's notation: \n, \x1b, \u202e,
// \U000e0041. It puts a backslash before each character of also.
func escaped(s, also, keep string) string {
	var b strings.Builder
	var seen sight
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		visible := seen.visible(r)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case strings.ContainsRune(keep, r):
			b.WriteRune(r)
		case strings.ContainsRune(also, r):
			b.WriteByte('\\')
			b.WriteRune(r)
		case !visible:
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		default:
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

// Quote returns s as one line in double quotes. [strconv.Unquote] restores s.
func Quote(s string) string {
	return `"` + escaped(s, `"\`, "") + `"`
}

// Cut returns s as Quote does if s has at most n characters. Otherwise its length comes first, then its beginning
// and its end, each quoted: `(5000 characters, 3 lines) "begin" … "end"`, together n characters of s.
func Cut(s string, n int) string {
	length := utf8.RuneCountInString(s)
	if length <= n {
		return Quote(s)
	}
	tail := n / 4
	return "(" + counted(s, length) + ") " + Quote(s[:offset(s, n-tail)]) + " … " + Quote(s[offset(s, length-tail):])
}

func counted(s string, length int) string {
	text := strconv.Itoa(length) + " characters"
	if lines := strings.Count(s, "\n") + 1; lines > 1 {
		text += ", " + strconv.Itoa(lines) + " lines"
	}
	return text
}

// offset returns the byte offset of the character number n of s.
func offset(s string, n int) int {
	at := 0
	for ; n > 0 && at < len(s); n-- {
		_, size := utf8.DecodeRuneInString(s[at:])
		at += size
	}
	return at
}

// Line returns s as one line without quotes, with invisible characters escaped. Backslashes and quotes are kept, so
// that code and paths stay readable.
func Line(s string) string {
	return escaped(s, "", "")
}

// Lines is Line for a text of several lines: newlines and tabs are kept.
func Lines(s string) string {
	return escaped(s, "", "\n\t")
}

// Name returns s if it is plain, and otherwise quoted.
func Name(s string) string {
	if Plain(s) {
		return s
	}
	return Quote(s)
}

// Plain reports whether s is one line of UTF-8 in which every character is visible.
func Plain(s string) bool {
	return escaped(s, "", "") == s
}

// JSON returns a JSON text with the same value, with invisible characters as JSON escapes.
func JSON(text string) string {
	var b strings.Builder
	var seen sight
	for _, r := range text {
		switch visible := seen.visible(r); {
		case visible, r == '\n', r == '\r', r == '\t':
			b.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		}
	}
	return b.String()
}
