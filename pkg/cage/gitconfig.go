package cage

import (
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Limits for reading git's configuration, which is hostile input.
const (
	maxConfig       = 1 << 20 // bytes of one file
	maxConfigDepth  = 10      // depth of includes, as in git
	maxConfigFiles  = 32      // files that one repository includes
	maxConfigValues = 256     // settings of one repository's configuration
)

// setting is one line of a configuration: the key in lower case without its subsection, such as includeif.path, and
// the value.
type setting struct{ key, value string }

// parseGitConfig returns the settings that git config would read, of the keys that wanted selects, at most
// maxConfigValues. It skips a line on which git would fail.
func parseGitConfig(text string, wanted func(key string) bool) (found []setting) {
	p := configParser{text: text}
	section := ""
	for len(found) < maxConfigValues {
		p.skipSpace()
		switch c := p.peek(); {
		case p.at >= len(p.text):
			return found
		case c == '#' || c == ';':
			p.skipLine()
		case c == '[':
			section = p.section()
		default:
			name := p.name()
			if name == "" {
				p.skipLine()
				continue
			}
			value := p.value()
			if key := section + "." + name; wanted(key) {
				found = append(found, setting{key, value})
			}
		}
	}
	return found
}

type configParser struct {
	text string
	at   int
}

func (p *configParser) peek() byte {
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

// skipSpace skips white space, and a byte order mark at the beginning.
func (p *configParser) skipSpace() {
	if p.at == 0 {
		p.at += len(p.text) - len(strings.TrimPrefix(p.text, "\uFEFF"))
	}
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n\v\f", p.text[p.at]) >= 0 {
		p.at++
	}
}

func (p *configParser) skipLine() {
	for p.at < len(p.text) && p.text[p.at] != '\n' {
		p.at++
	}
}

// section reads a header, such as [core] or [includeIf "gitdir:x"], and returns the name of the section without its
// subsection.
func (p *configParser) section() string {
	p.at++
	start := p.at
	for p.at < len(p.text) && strings.IndexByte("] \t\n\"", p.text[p.at]) < 0 {
		p.at++
	}
	name, _, _ := strings.Cut(strings.ToLower(p.text[start:p.at]), ".")
	quoted := false
	for ; p.at < len(p.text) && p.text[p.at] != '\n'; p.at++ {
		switch c := p.text[p.at]; {
		case c == '\\' && quoted:
			p.at++
		case c == '"':
			quoted = !quoted
		case c == ']' && !quoted:
			p.at++
			return name
		}
	}
	p.at = min(p.at, len(p.text))
	return name
}

// name reads a variable's name, "" if the line lacks one.
func (p *configParser) name() string {
	start := p.at
	for p.at < len(p.text) && isNameByte(p.text[p.at]) {
		p.at++
	}
	return strings.ToLower(p.text[start:p.at])
}

func isNameByte(c byte) bool {
	return c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// value reads the value after a name up to the end of its line, "true" if the line has no value.
func (p *configParser) value() string {
	for p.peek() == ' ' || p.peek() == '\t' {
		p.at++
	}
	if p.peek() != '=' {
		p.skipLine()
		return "true"
	}
	var b strings.Builder
	quoted, kept := false, 0 // kept is the length of the value without trailing spaces
	for p.at++; p.at < len(p.text); p.at++ {
		c := p.text[p.at]
		switch {
		case c == '\n':
			return b.String()[:kept]
		case c == '\r' && p.at+1 < len(p.text) && p.text[p.at+1] == '\n':
			continue
		case (c == '#' || c == ';') && !quoted:
			p.skipLine()
			return b.String()[:kept]
		case c == '"':
			quoted = !quoted
			kept = b.Len()
			continue
		case c == '\\':
			p.at++
			if p.peek() == '\r' && p.at+1 < len(p.text) && p.text[p.at+1] == '\n' {
				p.at++
			}
			switch e := p.peek(); e {
			case '\n', 0:
				continue
			case 't':
				c = '\t'
			case 'n':
				c = '\n'
			case 'b':
				c = '\b'
			default:
				c = e
			}
		case (c == ' ' || c == '\t') && !quoted:
			if b.Len() > 0 {
				b.WriteByte(c)
			}
			continue
		}
		b.WriteByte(c)
		kept = b.Len()
	}
	return b.String()[:kept]
}

// programs lists configuration keys by their last element. Git runs the values of these keys as commands.
var programs = map[string]bool{
	"fsmonitor": true, "sshcommand": true, "pager": true, "editor": true, "askpass": true, "gitproxy": true,
	"external": true, "command": true,
	"cmd": true, "textconv": true, "clean": true, "smudge": true, "process": true, "driver": true, "program": true,
	"helper":     true,
	"difffilter": true, "alternaterefscommand": true, "recentobjectshook": true, "defaultkeycommand": true,
	"uploadpack": true, "receivepack": true,
	"tunnel": true, "update": true, "packobjectshook": true, "tocmd": true, "cccmd": true, "headercmd": true,
	"sendmailcmd": true, "smtpserver": true, "path": true,
}

func wantedSetting(key string) bool {
	switch key {
	case "core.hookspath", "init.templatedir", "include.path", "includeif.path", "core.worktree",
		"extensions.objectformat", "remote.url", "remote.pushurl":
		return true
	}
	_, name, _ := strings.Cut(key, ".")
	return programs[name] || strings.HasPrefix(key, "pager.") || strings.HasPrefix(key, "alias.")
}

// repository is what a file with the name config tells about the folder that it lies in.
type repository struct {
	made bool // by git, as a repository's own
	bare bool // without a work tree
}

// repositoryOf reads the configuration in a folder.
func (c *compiler) repositoryOf(dir string) repository {
	if known, ok := c.repositories[dir]; ok {
		return known
	}
	var r repository
	if path := filepath.Join(dir, "config"); isRegular(path) {
		text, _ := readBounded(path, maxConfig)
		for _, s := range parseGitConfig(text, func(key string) bool {
			return key == "core.repositoryformatversion" || key == "core.bare"
		}) {
			if s.key == "core.bare" {
				r.bare = slices.Contains([]string{"true", "yes", "on", "1"}, strings.ToLower(s.value))
			} else {
				r.made = true
			}
		}
	}
	c.repositories[dir] = r
	return r
}

// gitSettings reads a configuration with its includes and returns each setting with the file that holds it. Conditional
// includes always count.
func (c *compiler) gitSettings(file string) (found []placedSetting) {
	seen := map[string]bool{}
	var read func(file string, depth int)
	read = func(file string, depth int) {
		if seen[file] {
			return
		}
		if len(seen) == maxConfigFiles || depth > maxConfigDepth || len(found) >= maxConfigValues {
			c.partial = true
			return
		}
		seen[file] = true
		text, whole := readBounded(file, maxConfig)
		c.partial = c.partial || !whole
		for _, s := range parseGitConfig(text, wantedSetting) {
			found = append(found, placedSetting{s, file})
			if strings.HasPrefix(s.key, "include") {
				if path, ok := gitPath(s.value, filepath.Dir(file)); ok {
					read(path, depth+1)
				}
			}
		}
	}
	read(file, 0)
	return found
}

type placedSetting struct {
	setting
	file string
}

// gitPath joins a path value of git's configuration to base. It keeps "..", which after a link means the parent of the
// link's target.
func gitPath(value, base string) (string, bool) {
	value = strings.TrimPrefix(value, ":(optional)")
	switch {
	case value == "" || strings.ContainsRune(value, 0) || strings.HasPrefix(value, "%(prefix)"):
		return "", false
	case value[0] == '~':
		name, rest, _ := strings.Cut(value[1:], "/")
		home := homeOf(name)
		return home + "/" + rest, home != ""
	case filepath.IsAbs(value):
		return value, true
	}
	return base + "/" + value, base != ""
}

// homeOf returns the home folder of a user, of this process's user for "". It returns "" for an unknown user.
func homeOf(name string) string {
	if name == "" {
		home, _ := os.UserHomeDir()
		return home
	}
	if u, err := user.Lookup(name); err == nil {
		return u.HomeDir
	}
	return ""
}

// userConfigs are the configuration files of git that belong to no repository.
func userConfigs() []string {
	files := []string{"/etc/gitconfig"}
	if home := homeOf(""); home != "" {
		files = append(files, filepath.Join(home, ".gitconfig"))
		config := os.Getenv("XDG_CONFIG_HOME")
		if config == "" {
			config = filepath.Join(home, ".config")
		}
		files = append(files, filepath.Join(config, "git", "config"))
	}
	return files
}

// readBounded reads a regular file up to a size. whole is false for a larger file.
func readBounded(path string, most int) (text string, whole bool) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", true
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return "", true
	}
	buf := make([]byte, min(int64(most), max(st.Size, 0)))
	got := 0
	for got < len(buf) {
		n, err := unix.Read(fd, buf[got:])
		if err == unix.EINTR {
			continue
		}
		if n <= 0 || err != nil {
			break
		}
		got += n
	}
	return string(buf[:got]), st.Size <= int64(most)
}
