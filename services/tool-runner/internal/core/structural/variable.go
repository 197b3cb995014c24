package structural

import "strings"

// parseVariable reads a whole text as a meta variable written with sigil. One that is remembered gets slot 0, to be replaced.
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

// validName reports whether a name may stand behind the dollars. Behind three there need be none.
func validName(name string, multi bool) bool {
	for i := range len(name) {
		if !nameByte(name[i]) {
			return false
		}
	}
	return multi || name != "" && (name[0] < '0' || name[0] > '9')
}

func nameByte(b byte) bool { return 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '_' }

// replaceDollars replaces the dollars before an upper-case letter or underscore, and three of them before anything.
func replaceDollars(pattern string, sigil rune) string {
	if sigil == '$' {
		return pattern
	}
	var b strings.Builder
	dollars := 0
	flush := func(replace bool) {
		with := "$"
		if replace {
			with = string(sigil)
		}
		b.WriteString(strings.Repeat(with, dollars))
		dollars = 0
	}
	for _, c := range pattern {
		if c == '$' {
			dollars++
			continue
		}
		flush('A' <= c && c <= 'Z' || c == '_' || dollars == 3)
		b.WriteRune(c)
	}
	flush(dollars == 3)
	return b.String()
}
