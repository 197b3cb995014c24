package patch

import (
	"slices"
	"strings"
	"unicode"
)

// level is the tolerance in the comparison of lines.
type level int

const (
	exact level = iota
	trailing
	indented
	typographic
	levels
)

// String completes "fits only".
func (l level) String() string {
	switch l {
	case trailing:
		return "ignoring white space at the ends of lines"
	case indented:
		return "ignoring white space around lines"
	case typographic:
		return "ignoring white space and typographic characters"
	}
	return "exactly"
}

// key returns the part of a line that is compared at a level.
func (l level) key(line string) string {
	switch l {
	case exact:
		return line
	case trailing:
		return strings.TrimRightFunc(line, unicode.IsSpace)
	case indented:
		return strings.TrimSpace(line)
	}
	return strings.TrimSpace(plain(line))
}

// plain replaces the typographic characters that models and editors put in place of ASCII ones.
func plain(line string) string {
	ascii := true
	for i := range len(line) {
		if line[i] >= 0x80 {
			ascii = false
			break
		}
	}
	if ascii {
		return line
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 0x2010 && r <= 0x2015, r == 0x2212:
			return '-'
		case r >= 0x2018 && r <= 0x201B, r == 0x2032:
			return '\''
		case r >= 0x201C && r <= 0x201F, r == 0x2033:
			return '"'
		case r == 0x00A0, r >= 0x2000 && r <= 0x200A, r == 0x202F, r == 0x205F, r == 0x3000:
			return ' '
		}
		return r
	}, line)
}

// maxPlaces is the maximum number of positions searched for, because a message names no more.
const maxPlaces = 5

// find returns up to most lines, from start on, at which wanted begins. wanted is not empty and is normalised.
func (f *file) find(wanted []string, l level, start, most int) []int {
	if len(f.hunks) >= indexFrom {
		if places, ok := f.lookUp(wanted, l, start, most); ok {
			return places
		}
	}
	// The algorithm of Knuth, Morris and Pratt avoids quadratic time for repeated lines.
	back := backs(wanted)
	var places []int
	same := 0
	for i := start; i < f.count(); i++ {
		key := l.key(f.line(i))
		for same > 0 && (same == len(wanted) || wanted[same] != key) {
			same = back[same-1]
		}
		if wanted[same] == key {
			same++
		}
		if same == len(wanted) {
			if places = append(places, i+1-same); len(places) == most {
				break
			}
		}
	}
	return places
}

// backs returns for each line the length of the longest prefix that also ends there.
func backs(lines []string) []int {
	back := make([]int, len(lines))
	same := 0
	for i := 1; i < len(lines); i++ {
		for same > 0 && lines[i] != lines[same] {
			same = back[same-1]
		}
		if lines[i] == lines[same] {
			same++
		}
		back[i] = same
	}
	return back
}

// lookUp is find by the index, if the rarest of the lines is rare enough to make that faster.
func (f *file) lookUp(wanted []string, l level, start, most int) ([]int, bool) {
	ix := f.index(l)
	rare := 0
	var candidates []int32
	for i, line := range wanted {
		if at := *ix[line]; i == 0 || len(at) < len(candidates) {
			rare, candidates = i, at
		}
	}
	if len(candidates)*len(wanted) > f.count() && len(wanted) > 1 {
		return nil, false
	}
	var places []int
	first, _ := slices.BinarySearch(candidates, int32(start+rare))
	for _, n := range candidates[first:] {
		if at := int(n) - rare; at <= f.count()-len(wanted) && f.fits(wanted, l, at) {
			if places = append(places, at); len(places) == most {
				break
			}
		}
	}
	return places, true
}

func (f *file) fits(wanted []string, l level, at int) bool {
	for i, line := range wanted {
		if l.key(f.line(at+i)) != line {
			return false
		}
	}
	return true
}

// index returns the positions of the lines of all hunks, by their keys at a level.
func (f *file) index(l level) map[string]*[]int32 {
	if f.indexes[l] != nil {
		return f.indexes[l]
	}
	ix := map[string]*[]int32{}
	for i := range f.hunks {
		for _, line := range f.hunks[i].Lines {
			if line.Op != '+' {
				ix[l.key(line.Text)] = nil
			}
		}
		for _, header := range f.hunks[i].Headers {
			ix[l.key(header)] = nil
		}
	}
	places := make([][]int32, len(ix))
	n := 0
	for key := range ix {
		ix[key] = &places[n]
		n++
	}
	for i := range f.count() {
		if at, ok := ix[l.key(f.line(i))]; ok {
			*at = append(*at, int32(i))
		}
	}
	f.indexes[l] = ix
	return ix
}
