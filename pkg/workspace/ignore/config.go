package ignore

import (
	"path/filepath"
	"strings"
	"sync"
)

// config is the values of git's configuration: "section.key" in lower case, and "filter.NAME.key". Later ones replace
// earlier.
type config map[string]string

// Limits of git's nesting of included files, and bounds of work for one repository, where a file
// may include itself again and again under any number of conditions. Files beyond a bound count as
// missing.
const (
	maxIncludes   = 10
	maxConfigs    = 100     // files, one that is read again counting again
	maxConfigSize = 1 << 20 // bytes in all of them
	maxConditions = 100_000 // steps of matching in all conditions
	maxBranch     = 4096    // bytes of HEAD
)

// configReader reads configuration for one repository.
type configReader struct {
	home string
	git  string // the repository's git folder, or ""
	// mayRead says which files others may include; nil allows all.
	mayRead func(real string) bool
	values  config
	// branch returns the checked-out branch, "" for a detached HEAD.
	branch func() string
	// Remaining budget: files, bytes of them, and steps.
	files, steps int
	bytes        int64
}

func newConfigReader(home, git string) *configReader {
	return &configReader{
		home: home, git: git, values: config{}, files: maxConfigs, bytes: maxConfigSize, steps: maxConditions,
		branch: sync.OnceValue(func() string {
			name, ok := strings.CutPrefix(
				strings.TrimSpace(string(readUpTo(filepath.Join(git, "HEAD"), maxBranch))),
				"ref: refs/heads/",
			)
			if !ok {
				return ""
			}
			return name
		}),
	}
}

// read adds the settings of a file and of the files it includes.
func (r *configReader) read(file string, depth int) {
	if r.files--; r.files < 0 || depth > maxIncludes {
		return
	}
	var mayRead func(string) bool
	if depth > 0 {
		mayRead = r.mayRead
	}
	content := readLinked(file, r.bytes, mayRead)
	r.bytes -= int64(len(content))
	section, name := "", ""
	for line := range logicalLines(string(content)) {
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
		case section == "filter":
			r.values["filter."+name+"."+key] = value
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
		return r.matches(pattern, r.git, kind == "gitdir/i")
	case "onbranch":
		branch := r.branch()
		return branch != "" && r.matches(pattern, branch, false)
	}
	return false
}

// matches reports whether the pattern of a condition matches text.
func (r *configReader) matches(pattern, text string, fold bool) (matched bool) {
	matched, r.steps = wildmatch(below(pattern), text, true, fold, r.steps)
	return matched
}

// below makes a pattern that ends with a slash one for all that is there.
func below(pattern string) string {
	if strings.HasSuffix(pattern, "/") {
		return pattern + "**"
	}
	return pattern
}

// header reads a section's line: its name in lower case, the quoted name behind it, and the rest.
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
		var whole strings.Builder
		for line := range strings.Lines(text) {
			line = strings.TrimRight(line, "\r\n")
			slashes := len(line) - len(strings.TrimRight(line, `\`))
			if slashes%2 == 1 {
				whole.WriteString(line[:len(line)-1])
				continue
			}
			if whole.Len() > 0 {
				whole.WriteString(line)
				line = whole.String()
				whole.Reset()
			}
			if !yield(line) {
				return
			}
		}
		if whole.Len() > 0 {
			yield(whole.String())
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
