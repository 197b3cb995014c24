// Package core holds what compiling a project and running an agent have in common: the snapshot of a project and the
// catalogue of tools. Package compile makes snapshots, package loop runs agents.
package core

import (
	"encoding/json"
	"path"
	"slices"
	"strings"

	"kaged.dev/pkg/dsl"
)

// Project is the snapshot of a project file: everything is resolved that does not depend on the operator's models.
type Project struct {
	// Slug, Description and Version are the file's.
	Slug, Description string
	Version           int
	// Root is the root agent.
	Root *Agent
	// ToolsOff are the canonical names of the catalogue's tools that it does not have, in catalogue order.
	ToolsOff []string
}

// Agent is one agent of a snapshot.
type Agent struct {
	// Key is its key in its parent's subagents, "primary" for the root; Path is its tree path.
	Key, Path string
	// Model is the alias of its model.
	Model string
	// PromptPath is its prompt file, relative to the project's root.
	PromptPath string
	// Description is what a parent is told about it.
	Description string
	// MaxSteps and MaxOutputTokens are 0 where they are not set.
	MaxSteps, MaxOutputTokens int
	// Cage is nil for none.
	Cage *dsl.Cage
	// Tools are the canonical names of its tools, in catalogue order.
	Tools []string
	// Aliases are the names to show the model instead of canonical ones, by canonical name.
	Aliases map[string]string
	// Writes says whether one of its tools changes files or runs programs.
	Writes bool
	// Children are its direct children by key.
	Children []*Agent
	// ResumeOnCrash counts for the root only.
	ResumeOnCrash bool
	// IncludeToolResults says whether results of earlier runs' tools are shown to the model again.
	IncludeToolResults bool
}

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
	// Aliases are other names it answers to.
	Aliases []ToolAlias
}

// ToolAlias is another name of a tool, with its own input.
type ToolAlias struct {
	Name, Description string
	Schema            json.RawMessage
}

// answersTo reports whether name is the tool's own or an alias.
func (t *Tool) answersTo(name string) bool {
	return t.Name == name || t.Alias(name) != nil
}

// Alias returns the alias called name, nil if there is none.
func (t *Tool) Alias(name string) *ToolAlias {
	for i := range t.Aliases {
		if t.Aliases[i].Name == name {
			return &t.Aliases[i]
		}
	}
	return nil
}

// Catalogue is the tools there are, in their canonical order. It is never changed once made.
type Catalogue []Tool

// Find returns the tool that answers to name, nil if there is none.
func (c Catalogue) Find(name string) *Tool {
	for i := range c {
		if c[i].answersTo(name) {
			return &c[i]
		}
	}
	return nil
}

// ToolSwitch turns the tools that a pattern matches on or off.
type ToolSwitch struct {
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
		fits := func(a ToolAlias) bool { return a.Name == space || strings.HasPrefix(a.Name, space+".") }
		if t.Name == space || slices.ContainsFunc(t.Aliases, fits) {
			return GlobMatch
		}
	}
	return NoMatch
}

// Verdict returns the last of switches that names t most closely, nil if none does: a name counts more than a glob, and
// of equals the later counts.
func Verdict(switches []ToolSwitch, t *Tool) *ToolSwitch {
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
func TurnedOff(switches []ToolSwitch, t *Tool) bool {
	v := Verdict(switches, t)
	return v != nil && !v.Enabled
}
