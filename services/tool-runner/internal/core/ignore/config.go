package ignore

import (
	"path/filepath"
	"strings"
)

// config is the values of a few keys of git's configuration, "section.key" in lower case. Later ones replace earlier.
type config map[string]string

// How deep files may include others, as in git, and how many are read for one repository: a file may include itself again and
// again.
const (
	maxIncludes = 10
	maxConfigs  = 100
)

// configReader reads configuration for one repository.
type configReader struct {
	home string
	git  string // the repository's git folder, "" for none
	// mayRead says which files others may include; nil allows all.
	mayRead func(real string) bool
	values  config
	files   int // that were read
}

// read adds what stands in a file and what it includes.
func (r *configReader) read(file string, depth int) {
	if r.files++; r.files > maxConfigs || depth > maxIncludes {
		return
	}
	var mayRead func(string) bool
	if depth > 0 {
		mayRead = r.mayRead
	}
	section, name := "", ""
	for line := range logicalLines(string(readLinked(file, mayRead))) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			var rest string
			section, name, rest = header(line)
			line = strings.TrimSpace(rest)
		}
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		key, value, found := strings.Cut(line, "=")
		if !found {
			value = "true"
		}
		key, value = strings.ToLower(strings.TrimSpace(key)), unquote(strings.TrimSpace(value))
		included := key == "path" && (section == "include" && name == "" || section == "includeif" && r.holds(name, file))
		switch {
		case included:
			r.read(r.place(value, file), depth+1)
		case name == "":
			r.values[section+"."+key] = value
		}
	}
}

// place returns the path a value means, in a file.
func (r *configReader) place(value, file string) string {
	if rest, ok := strings.CutPrefix(value, "~/"); ok {
		return filepath.Join(r.home, rest)
	}
	if !filepath.IsAbs(value) {
		return filepath.Join(filepath.Dir(file), value)
	}
	return value
}

// holds reports whether a condition of includeIf does.
func (r *configReader) holds(condition, file string) bool {
	kind, pattern, _ := strings.Cut(condition, ":")
	if r.git == "" || pattern == "" {
		return false
	}
	switch kind {
	case "gitdir", "gitdir/i":
		switch {
		case strings.HasPrefix(pattern, "~/"):
			pattern = r.home + pattern[1:]
		case strings.HasPrefix(pattern, "./"):
			pattern = filepath.Dir(file) + pattern[1:]
		case !strings.HasPrefix(pattern, "/"):
			pattern = "**/" + pattern
		}
		return wildmatch(below(pattern), r.git, true, kind == "gitdir/i")
	case "onbranch":
		branch, ok := strings.CutPrefix(strings.TrimSpace(string(readFile(filepath.Join(r.git, "HEAD")))), "ref: refs/heads/")
		return ok && wildmatch(below(pattern), branch, true, false)
	}
	return false
}

// below makes a pattern that ends with a slash one for all that is there.
func below(pattern string) string {
	if strings.HasSuffix(pattern, "/") {
		return pattern + "**"
	}
	return pattern
}

// header reads a section's line: its name in lower case, the quoted name behind it, and what follows.
func header(line string) (section, name, rest string) {
	inside, rest, _ := strings.Cut(line[1:], "]")
	if before, _, ok := strings.Cut(inside, `"`); ok {
		// The quoted name may hold the bracket itself.
		inside = before
		var b strings.Builder
		rest = line[len(`[`+before+`"`):]
		for i := 0; i < len(rest); i++ {
			switch c := rest[i]; {
			case c == '\\' && i+1 < len(rest):
				i++
				b.WriteByte(rest[i])
				continue
			case c == '"':
				_, after, _ := strings.Cut(rest[i:], "]")
				return strings.ToLower(strings.TrimSpace(inside)), b.String(), after
			default:
				b.WriteByte(c)
			}
		}
		return strings.ToLower(strings.TrimSpace(inside)), b.String(), ""
	}
	return strings.ToLower(strings.TrimSpace(inside)), "", rest
}

// logicalLines yields the lines of a text, those that end with a backslash joined with the next.
func logicalLines(text string) func(func(string) bool) {
	return func(yield func(string) bool) {
		whole := ""
		for line := range strings.Lines(text) {
			line = strings.TrimRight(line, "\r\n")
			slashes := len(line) - len(strings.TrimRight(line, `\`))
			if slashes%2 == 1 {
				whole += line[:len(line)-1]
				continue
			}
			if !yield(whole + line) {
				return
			}
			whole = ""
		}
		if whole != "" {
			yield(whole)
		}
	}
}

// unquote reads a value: quotes group, a backslash protects, # and ; begin a comment.
func unquote(value string) string {
	var b strings.Builder
	quoted := false
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case c == '\\' && i+1 < len(value):
			i++
			if to, ok := escapes[value[i]]; ok {
				b.WriteByte(to)
			} else {
				b.WriteByte(value[i])
			}
		case c == '"':
			quoted = !quoted
		case (c == '#' || c == ';') && !quoted:
			return strings.TrimSpace(b.String())
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

var escapes = map[byte]byte{'n': '\n', 't': '\t', 'b': '\b'}

func isTrue(value string) bool {
	switch strings.ToLower(value) {
	case "true", "yes", "on", "1":
		return true
	}
	return false
}
