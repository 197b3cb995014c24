package astgrep

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// parseVariable parses a whole text as a meta variable with the given sigil. A captured variable gets slot 0; the
// caller sets the real slot.
func parseVariable(text string, sigil rune) (node, bool) {
	mark := string(sigil)
	if !strings.HasPrefix(text, mark) {
		return node{}, false
	}
	name := text[len(mark):]
	v := node{kind: wildcard, named: true, slot: -1}
	if rest, ok := strings.CutPrefix(name, mark); ok {
		name, v.named = rest, false
		if rest, ok := strings.CutPrefix(name, mark); ok {
			name, v.multi = rest, true
		}
	}
	if !validName(name, v.multi) {
		return node{}, false
	}
	if name != "" && name[0] != '_' {
		v.slot = 0
	}
	return v, true
}

// validName reports whether a name may follow the dollars. After three dollars it may be empty.
func validName(name string, multi bool) bool {
	for i := range len(name) {
		if !nameByte(name[i]) {
			return false
		}
	}
	return multi || name != "" && !isDigit(name[0])
}

func isDigit(b byte) bool { return '0' <= b && b <= '9' }

// inWord reports whether rest continues a word: $Total is not the variable T.
func inWord(rest string) bool {
	r, _ := utf8.DecodeRuneInString(rest)
	return unicode.IsLetter(r) || unicode.IsDigit(r)
}

func nameByte(b byte) bool { return 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '_' }
