// Package catalogue holds the tools there are and the patterns that name them: what compiling a project and running an agent
// have in common. [Tools] are a workspace's, as its tool-runner lists them.
package catalogue

import (
	"encoding/json"
	"path"
	"slices"
	"strings"

	"kaged.dev/pkg/toolcall"
)

// Tool is an entry of the catalogue.
type Tool struct {
	// Name is the canonical dotted name.
	Name string
	// Description is what the model is told about it.
	Description string
	// Schema is the JSON Schema of its input.
	Schema json.RawMessage
	// RootOnly says whether only the root agent may use it, DefaultRoot whether that has it without being given it.
	RootOnly, DefaultRoot bool
	// Writes says whether it changes files or runs programs.
	Writes bool
	// Parallel says whether calls of one turn may run side by side.
	Parallel bool
	// ReadWhen describes the calls that only look, of a tool that writes.
	ReadWhen toolcall.ReadWhen
	// Aliases are other names it answers to.
	Aliases []Alias
}

// Alias is another name of a tool, with its own input.
type Alias struct {
	Name, Description string
	Schema            json.RawMessage
	// ReadWhen describes the calls by this name that only look.
	ReadWhen toolcall.ReadWhen
}

// answersTo reports whether name is the tool's own or an alias.
func (t *Tool) answersTo(name string) bool {
	return t.Name == name || t.Alias(name) != nil
}

// Alias returns the alias called name, nil if there is none.
func (t *Tool) Alias(name string) *Alias {
	for i := range t.Aliases {
		if t.Aliases[i].Name == name {
			return &t.Aliases[i]
		}
	}
	return nil
}

// Tools are the tools there are, in their canonical order. They are never changed once made.
type Tools []Tool

// Find returns the tool that answers to name, nil if there is none.
func (c Tools) Find(name string) *Tool {
	for i := range c {
		if c[i].answersTo(name) {
			return &c[i]
		}
	}
	return nil
}

// Switch turns the tools that a pattern matches on or off.
type Switch struct {
	// Pattern is a name, an alias, or a glob on canonical names.
	Pattern string
	// Enabled is on or off.
	Enabled bool
}

// Match is how a pattern names a tool.
type Match int

// The ways, each counting more than those before it.
const (
	NoMatch Match = iota
	GlobMatch
	ExactMatch
)

// Matches tells how pattern names t: as its name or an alias, or as a glob that its name fits. The glob x.* also fits a
// tool that is called x, or whose alias is x or fits, so that files written for namespaces that became one tool still work.
func (t *Tool) Matches(pattern string) Match {
	if t.answersTo(pattern) {
		return ExactMatch
	}
	if !strings.ContainsAny(pattern, "*?") {
		return NoMatch
	}
	if ok, err := path.Match(pattern, t.Name); err == nil && ok {
		return GlobMatch
	}
	if space, ok := strings.CutSuffix(pattern, ".*"); ok {
		fits := func(a Alias) bool { return a.Name == space || strings.HasPrefix(a.Name, space+".") }
		if t.Name == space || slices.ContainsFunc(t.Aliases, fits) {
			return GlobMatch
		}
	}
	return NoMatch
}

// Verdict returns the last of switches that names t most closely, nil if none does: a name counts more than a glob, and
// of equals the later counts.
func Verdict(switches []Switch, t *Tool) *Switch {
	best, how := -1, NoMatch
	for i, s := range switches {
		if m := t.Matches(s.Pattern); m != NoMatch && m >= how {
			best, how = i, m
		}
	}
	if best < 0 {
		return nil
	}
	return &switches[best]
}

// TurnedOff reports whether switches turn t off explicitly. An operator's rules that do win over every project.
func TurnedOff(switches []Switch, t *Tool) bool {
	v := Verdict(switches, t)
	return v != nil && !v.Enabled
}
