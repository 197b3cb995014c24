package paths

import (
	"path/filepath"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// denial is one entry of the operator's denied paths.
type denial struct {
	text    string
	path    string // a path and all below it, "" for a pattern
	pattern string
}

// denials reads the rules once per space. A denied path that is itself a link denies both its ends.
func denials(rules Rules, project string) []denial {
	var list []denial
	for _, text := range rules.Denied {
		name := strings.TrimSuffix(expand(text, rules.Home, project), "/**")
		if strings.ContainsAny(name, "*?[{") {
			list = append(list, denial{text: text, pattern: name})
			continue
		}
		list = append(list, denial{text: text, path: name})
		if real, err := filepath.EvalSymlinks(name); err == nil && real != name {
			list = append(list, denial{text: text, path: real})
		}
	}
	return list
}

// denies returns the rule that denies a real absolute path, nil if none does.
func (s *Space) denies(real string) *denial {
	for i := range s.denied {
		if s.denied[i].covers(real) {
			return &s.denied[i]
		}
	}
	return nil
}

// Denied reports whether the operator denies a real absolute path.
func (s *Space) Denied(real string) bool { return s.denies(real) != nil }

func (d denial) covers(real string) bool {
	if d.pattern == "" {
		return Below(real, d.path)
	}
	for p := real; ; p = filepath.Dir(p) {
		if ok, err := doublestar.Match(d.pattern, p); err == nil && ok {
			return true
		}
		if p == "/" || p == "." {
			return false
		}
	}
}

// Denies reports whether the operator denies anything at all.
func (s *Space) Denies() bool { return len(s.denied) > 0 }
