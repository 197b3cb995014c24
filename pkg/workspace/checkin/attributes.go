package checkin

import (
	"path"
	"slices"
	"strings"
	"unsafe"

	"kaged.dev/pkg/workspace/ignore"
)

// FileName is the file with the attributes of its folder and all below.
const FileName = ".gitattributes"

// maxLine is the longest line of attributes that git reads, in bytes.
const maxLine = 2048

// The bounds of a file, far above those of real files.
const (
	maxRules = 10_000       // rules and macros
	maxGiven = 5 * maxRules // attributes in them
)

// states of an attribute that have no text.
const (
	set         = "\x00set"
	unset       = "\x00unset"
	unspecified = "\x00unspecified"
)

// assignment gives an attribute a state: one of the constants, or a text.
type assignment struct{ name, state string }

// rule gives attributes to the names that a pattern matches.
type rule struct {
	pattern string
	rooted  bool // the pattern is matched with the whole path below the folder, else with the last name
	give    []assignment
}

// list is the content of one file of attributes.
type list struct {
	base  string // the folder of the file below the work tree, with a slash at its end, or ""
	rules []rule
	bytes int  // that it takes
	cut   bool // rules were left out
}

// macros are named lists of attributes.
type macros map[string][]assignment

// builtin are git's own.
func builtin() macros { return macros{"binary": {{"diff", unset}, {"merge", unset}, {"text", unset}}} }

// parse reads a file of attributes. Its macros are added to m unless that is nil.
func parse(content []byte, base string, m macros) *list {
	l := &list{base: base}
	kept, attributes := 0, 0
	for line := range strings.Lines(string(content)) {
		if len(line) > maxLine {
			continue
		}
		line = strings.TrimLeft(strings.TrimRight(line, "\r\n"), " \t")
		if line == "" || line[0] == '#' {
			continue
		}
		name, rest := splitName(line)
		given := assignments(rest)
		kept++
		attributes += len(given)
		if l.cut = kept > maxRules || attributes > maxGiven; l.cut {
			break
		}
		if macro, ok := strings.CutPrefix(name, "[attr]"); ok {
			if m != nil && validName(macro) {
				m[macro] = given
			}
			continue
		}
		// A pattern with a slash at its end matches folders, which have no content; git refuses one that negates.
		if name == "" || name[0] == '!' || strings.HasSuffix(name, "/") {
			continue
		}
		l.rules = append(l.rules, rule{
			pattern: strings.TrimPrefix(name, "/"), rooted: strings.Contains(name, "/"), give: given,
		})
		l.bytes += cap(given) * int(unsafe.Sizeof(assignment{}))
	}
	l.bytes += int(unsafe.Sizeof(*l)) + cap(l.rules)*int(unsafe.Sizeof(rule{}))
	if len(l.rules) > 0 {
		l.bytes += len(content) // the names in the rules are parts of it
	}
	return l
}

// splitName splits a line into its pattern, which may be quoted, and the attributes.
func splitName(line string) (name, rest string) {
	if line[0] != '"' {
		if i := strings.IndexAny(line, " \t"); i >= 0 {
			return line[:i], line[i:]
		}
		return line, ""
	}
	var b strings.Builder
	for i := 1; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\' && i+1 < len(line):
			i++
			b.WriteByte(line[i])
		case c == '"':
			return b.String(), line[i+1:]
		default:
			b.WriteByte(c)
		}
	}
	return "", ""
}

// assignments reads the attributes of a line.
func assignments(text string) (given []assignment) {
	for field := range strings.FieldsSeq(text) {
		a := assignment{field, set}
		if name, value, found := strings.Cut(field, "="); found {
			a = assignment{name, value}
		} else if field[0] == '-' {
			a = assignment{field[1:], unset}
		} else if field[0] == '!' {
			a = assignment{field[1:], unspecified}
		}
		if validName(a.name) {
			given = append(given, a)
		}
	}
	return given
}

func validName(name string) bool {
	return name != "" && name[0] != '-' && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '-' && r != '.' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}

// lookup returns the attributes of a file, given the lists that apply to it, the strongest first. steps bounds the
// work.
func lookup(lists []*list, m macros, rel string, fold bool, steps int) map[string]string {
	found := map[string]string{}
	for _, l := range lists {
		below, ok := strings.CutPrefix(rel, l.base)
		if !ok {
			continue
		}
		for _, r := range slices.Backward(l.rules) {
			text := below
			if !r.rooted {
				text = path.Base(below)
			}
			var matched bool
			if matched, steps = ignore.Match(r.pattern, text, r.rooted, fold, steps); matched {
				give(found, m, r.give)
			}
			if steps <= 0 {
				return found
			}
		}
	}
	return found
}

// give adds the assignments that are not decided yet. An attribute that is set and names a macro brings those of the
// macro.
func give(found map[string]string, m macros, given []assignment) {
	for _, a := range slices.Backward(given) {
		if _, decided := found[a.name]; decided {
			continue
		}
		found[a.name] = a.state
		if a.state == set {
			give(found, m, m[a.name])
		}
	}
}
