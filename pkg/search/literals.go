package search

import (
	"bytes"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// literals are texts. Every match contains at least one of them.
type literals struct {
	any   []string
	fold  bool // in any case; the texts are then lower-case ASCII
	exact bool // a line matches if and only if it contains one
}

// maxLiterals is the maximum number of texts for which a separate search of each saves time.
const maxLiterals = 8

// required returns the literals that an expression requires, none if a search for them would not save time.
func required(re *syntax.Regexp) literals {
	l := needed(re)
	for _, text := range l.any {
		if !worth(text) {
			return literals{}
		}
	}
	return l
}

// worth reports whether a text is rare enough to save time: a single letter is not.
func worth(text string) bool {
	return len(text) > 1 ||
		len(text) == 1 && !strings.ContainsAny(text, " \tetaoinsrhldcumfpgwybvkxjqz0123456789ETAOINSRHLDCUMFPGWYBVKXJQZ")
}

func needed(re *syntax.Regexp) literals {
	switch re.Op {
	case syntax.OpLiteral:
		return literal(re)
	case syntax.OpCapture:
		return needed(re.Sub[0])
	case syntax.OpPlus:
		return inexact(needed(re.Sub[0]))
	case syntax.OpRepeat:
		if re.Min > 0 {
			return inexact(needed(re.Sub[0]))
		}
	case syntax.OpConcat:
		return best(re.Sub)
	case syntax.OpAlternate:
		return union(re.Sub)
	}
	return literals{}
}

func inexact(l literals) literals {
	l.exact = false
	return l
}

// literal returns the text of a literal. If case is ignored, only a run of ASCII can be used.
func literal(re *syntax.Regexp) literals {
	if re.Flags&syntax.FoldCase == 0 {
		return literals{any: []string{string(re.Rune)}, exact: true}
	}
	longest, run := "", ""
	for _, r := range re.Rune {
		if r >= utf8.RuneSelf {
			run = ""
			continue
		}
		if run += strings.ToLower(string(r)); len(run) > len(longest) {
			longest = run
		}
	}
	if longest == "" {
		return literals{}
	}
	return literals{any: []string{longest}, fold: true, exact: len(longest) == len(re.Rune)}
}

// best returns the literals of the most selective part of a sequence. Adjacent parts that are only texts are one part:
// "f(oo|ar)" needs "foo" or "far".
func best(parts []*syntax.Regexp) literals {
	var found, side literals
	whole := true
	for i, part := range parts {
		l := needed(part)
		if joined, ok := join(side, l); ok && len(side.any) > 0 {
			side = joined
		} else {
			side = l
			whole = whole && i == 0
		}
		whole = whole && side.exact
		if !side.exact {
			side = literals{}
		}
		for _, candidate := range [...]literals{l, side} {
			if score(candidate) > score(found) {
				found = candidate
			}
		}
	}
	if whole && len(side.any) > 0 {
		return side
	}
	return inexact(found)
}

// join returns each text of a followed by each of b, if both consist of texts only.
func join(a, b literals) (literals, bool) {
	if !a.exact || !b.exact || a.fold != b.fold || len(a.any)*len(b.any) > maxLiterals {
		return literals{}, false
	}
	joined := literals{fold: a.fold, exact: true}
	for _, first := range a.any {
		for _, second := range b.any {
			joined.any = append(joined.any, first+second)
		}
	}
	return joined, true
}

// score estimates how much a set of literals narrows a search: by its shortest text, less for many texts and for
// ignored case.
func score(l literals) int {
	if len(l.any) == 0 {
		return 0
	}
	shortest := len(l.any[0])
	for _, text := range l.any {
		shortest = min(shortest, len(text))
	}
	s := 16*min(shortest, 16) - 4*len(l.any)
	if l.fold {
		s -= 8
	}
	return max(s, 1)
}

// weak reports whether a literal is a single character, which is less selective than a run.
func (l *literals) weak() bool {
	for _, text := range l.any {
		if len(text) == 1 {
			return true
		}
	}
	return false
}

// union returns the literals of an alternation: those of each alternative.
func union(parts []*syntax.Regexp) literals {
	all := literals{exact: true}
	mixed := false
	for i, part := range parts {
		l := needed(part)
		if len(l.any) == 0 {
			return literals{}
		}
		mixed = mixed || i > 0 && l.fold != all.fold
		all.any = append(all.any, l.any...)
		all.exact = all.exact && l.exact
		all.fold = all.fold || l.fold
	}
	if len(all.any) > maxLiterals {
		return literals{}
	}
	if !all.fold {
		return all
	}
	// If one ignores case, all are searched that way, so all must allow it.
	for i, text := range all.any {
		for _, c := range []byte(text) {
			if c >= utf8.RuneSelf {
				return literals{}
			}
		}
		all.any[i] = strings.ToLower(text)
	}
	all.exact = all.exact && !mixed
	return all
}

// odd are the non-ASCII characters that fold to ASCII letters: the Kelvin sign and the long s.
var odd = [...]struct {
	letter byte
	text   []byte
}{{'k', []byte("\u212A")}, {'s', []byte("\u017F")}}

// usable reports whether the literals can be searched in data. Data with characters of odd may contain a match that the
// ASCII search would miss.
func (l *literals) usable(data []byte) bool {
	if !l.fold {
		return true
	}
	for _, o := range odd {
		for _, text := range l.any {
			if strings.IndexByte(text, o.letter) >= 0 && bytes.Contains(data, o.text) {
				return false
			}
		}
	}
	return true
}
