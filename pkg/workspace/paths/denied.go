package paths

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"kaged.dev/pkg/fault"
)

// denial is one resolved entry of the operator's denied paths: a place, and a pattern of the denied
// paths below it.
type denial struct {
	text    string
	place   string // absolute, without links
	pattern string // of paths below the place, "" for the place and all below it
}

// meta are the characters that make a rule a pattern.
const meta = "*?[{"

// Check refuses, with bad_request, rules that could not hold: invalid patterns, and ~ without a
// home.
func (r Rules) Check() error {
	for i, text := range slices.Concat(r.Allowed, r.Denied) {
		key := "allowed_paths"
		if i >= len(r.Allowed) {
			key = "denied_paths"
		}
		_, rest, known := r.anchor(text, "/")
		if !known {
			return fault.New(
				fault.BadRequest,
				"services.tool-runner.%s holds %q, and the user kaged runs as has no home; write the whole path.",
				key,
				text,
			)
		}
		if i >= len(r.Allowed) && strings.ContainsAny(rest, meta) && !doublestar.ValidatePattern(rest) {
			return fault.New(fault.BadRequest,
				`services.tool-runner.%s holds %q, which is no pattern; write \ before a [ or { that is meant as such.`,
				key, text)
		}
	}
	return nil
}

// anchor splits a rule into the folder it begins at and the rest, which is clean and relative.
// known is false for a rule about an unknown home.
func (r Rules) anchor(text, project string) (start, rest string, known bool) {
	start, rest = project, text
	switch {
	case text == "~" || strings.HasPrefix(text, "~/"):
		start, rest = r.Home, text[1:]
	case filepath.IsAbs(text):
		start = "/"
	}
	rest = path.Clean(strings.TrimLeft(rest, "/"))
	// A folder and all below it has the same meaning as the folder alone.
	for rest == "**" || strings.HasSuffix(rest, "/**") {
		rest = path.Clean(strings.TrimSuffix(rest, "**"))
	}
	return start, rest, start != ""
}

// denials reads the rules once per space. A rule that cannot be told denies all that it may mean.
func denials(rules Rules, project string) []denial {
	var list []denial
	for _, text := range rules.Denied {
		start, rest, known := rules.anchor(text, project)
		if !known {
			list = append(list, denial{text: text, place: "/"})
			continue
		}
		if start != project {
			start = realOf("/", start)
		}
		if strings.ContainsAny(rest, meta) {
			base, pattern := split(rest)
			list = append(list, denial{text, realOf(start, base), pattern})
			if !strings.ContainsAny(rest, "[{") {
				continue
			}
			// It may as well be a name that has brackets in it.
		}
		// A denied path that is itself a link denies both its ends.
		folder := realOf(start, path.Dir(rest))
		own, real := filepath.Join(folder, path.Base(rest)), realOf(folder, path.Base(rest))
		if list = append(list, denial{text: text, place: real}); own != real {
			list = append(list, denial{text: text, place: own})
		}
	}
	return list
}

// split returns the part of a rule before the first component that is a pattern, and the pattern.
func split(rest string) (base, pattern string) {
	parts := strings.Split(rest, "/")
	n := 0
	for !strings.ContainsAny(parts[n], meta+`\`) {
		n++
	}
	return path.Clean(strings.Join(parts[:n], "/")), strings.Join(parts[n:], "/")
}

// realOf resolves a path below start, a real folder, as far as it exists. Unreadable parts stay as
// written: no path of a space leads through them either.
func realOf(start, rest string) string {
	found, err := walk(start, rest)
	if err != nil {
		return filepath.Join(start, rest)
	}
	return found.path
}

// denies returns the rule that denies a real absolute path, or nil.
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
	if !Below(real, d.place) {
		return false
	}
	if d.pattern == "" {
		return true
	}
	for p := strings.TrimPrefix(real[len(d.place):], "/"); p != "" && p != "."; p = path.Dir(p) {
		if ok, err := doublestar.Match(d.pattern, p); ok || err != nil {
			return true
		}
	}
	return false
}

// Denies reports whether the operator denies any path.
func (s *Space) Denies() bool { return len(s.denied) > 0 }
