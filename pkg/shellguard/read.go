package shellguard

import (
	"slices"
	"strings"
)

// Arg is an argument of a command. It may contain unknown values.
type Arg []Part

// Part is text, or represents an unknown value.
type Part struct {
	Text string
	Open bool
}

// Read returns, in order, the indexes of the arguments with an unknown value that a shell would read as commands or as
// a part of commands.
func Read(argv []Arg) []int {
	s := new(Guard).search()
	list := make([]word, len(argv))
	for i, arg := range argv {
		list[i] = arg.word(i)
	}
	s.command(list, nothing, 0)
	slices.Sort(s.holes)
	return slices.Compact(s.holes)
}

func (a Arg) word(number int) word {
	w := word{known: true}
	var b strings.Builder
	for _, part := range a {
		if !part.Open {
			b.WriteString(part.Text)
			continue
		}
		if w.known {
			w = word{lead: b.String(), holes: []int{number}}
		}
		b.Reset()
	}
	w.text = b.String()
	return w
}
