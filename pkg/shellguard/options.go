package shellguard

import "strings"

// options are the known options of a program.
type options struct {
	// short are the one-letter options in getopt's notation: "ab:c::" are a flag, one with a value, and one with an
	// optional value in the same word.
	short string
	// long are the names of the others, followed by = for one value, == for two values, and ? for a value only after =.
	long string
}

// arity is the way in which an option takes a value.
type arity int

const (
	// either marks an unknown option: the next word may be its value or not.
	either   arity = iota
	flag           // it has none
	valued         // its value is the rest of its word, or the next word
	attached       // its value is the rest of its word, if there is one
	paired         // its values are the next two words
)

// letter returns the arity of a one-letter option.
func (o options) letter(c byte) arity {
	if c >= '0' && c <= '9' {
		return flag // a number, which takes no value in any program that accepts one
	}
	_, after, known := strings.Cut(o.short, string(c))
	switch {
	case c == ':' || !known:
		return either
	case strings.HasPrefix(after, "::"):
		return attached
	case strings.HasPrefix(after, ":"):
		return valued
	}
	return flag
}

// named returns the long options for which a name, possibly abbreviated, can stand, and their arity.
func (o options) named(name string) ([]string, arity) {
	var names []string
	var kinds [paired + 1]int
	for entry := range strings.FieldsSeq(o.long) {
		known, kind := strings.TrimRight(entry, "=?"), flag
		switch entry[len(known):] {
		case "=":
			kind = valued
		case "?":
			kind = attached
		case "==":
			kind = paired
		}
		switch {
		case known == name:
			return []string{known}, kind
		case strings.HasPrefix(known, name):
			names = append(names, known)
			kinds[kind]++
		}
	}
	for kind, n := range kinds {
		if n > 0 && n == len(names) {
			return names, arity(kind)
		}
	}
	return names, either
}
