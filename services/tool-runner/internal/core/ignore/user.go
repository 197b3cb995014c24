package ignore

import (
	"path/filepath"
	"strings"
)

// User is what holds for all repositories of the user kaged runs as.
type User struct {
	list *List
	fold bool
}

// LoadUser reads the user's ignore file: the one core.excludesFile names in git's configuration, else git/ignore in the
// configuration folder. lookup reads the environment. Configuration that is included by others is not looked at.
func LoadUser(lookup func(string) (string, bool)) *User {
	home, _ := lookup("HOME")
	config, ok := lookup("XDG_CONFIG_HOME")
	if !ok || config == "" {
		config = filepath.Join(home, ".config")
	}
	files := []string{filepath.Join(config, "git", "config"), filepath.Join(home, ".gitconfig")}
	if global, ok := lookup("GIT_CONFIG_GLOBAL"); ok {
		files = []string{global}
	}
	if value, ok := lookup("GIT_CONFIG_NOSYSTEM"); !ok || !isTrue(value) {
		files = append([]string{"/etc/gitconfig"}, files...)
	}
	excludes, user := filepath.Join(config, "git", "ignore"), &User{}
	for _, file := range files {
		core := coreSection(readLinked(file))
		if path, ok := core["excludesfile"]; ok {
			excludes = path
		}
		if value, ok := core["ignorecase"]; ok {
			user.fold = isTrue(value)
		}
	}
	if rest, ok := strings.CutPrefix(excludes, "~/"); ok {
		excludes = filepath.Join(home, rest)
	}
	user.list = Parse(readLinked(excludes), user.fold)
	return user
}

// readLinked is readFile for files of the user, which often are links.
func readLinked(path string) []byte {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil
	}
	return readFile(real)
}

func isTrue(value string) bool {
	switch strings.ToLower(value) {
	case "true", "yes", "on", "1", "":
		return true
	}
	return false
}

// coreSection returns the keys of the [core] sections of a git configuration, in lower case.
func coreSection(content []byte) map[string]string {
	keys, inside := map[string]string{}, false
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section, rest, _ := strings.Cut(line[1:], "]")
			inside = strings.EqualFold(strings.TrimSpace(section), "core")
			line = strings.TrimSpace(rest)
		}
		if !inside || line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		key, value, found := strings.Cut(line, "=")
		if !found {
			value = "true"
		}
		keys[strings.ToLower(strings.TrimSpace(key))] = unquote(strings.TrimSpace(value))
	}
	return keys
}

// unquote reads a configuration value: quotes group, a backslash protects, # and ; begin a comment.
func unquote(value string) string {
	var b strings.Builder
	quoted := false
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case c == '\\' && i+1 < len(value):
			i++
			b.WriteByte(value[i])
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
