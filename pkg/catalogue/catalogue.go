// Package catalogue holds the known tools and the patterns that name them, shared by compiling a project and
// running an agent. [Tools] are a workspace's, as its tool-runner lists them.
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
	// Description describes the tool to the model.
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
	ReadWhen toolcall.When
	// WaitWhen describes the calls that wait for outside events, also those by an alias without an action.
	WaitWhen toolcall.When
	// Aliases are other names it answers to.
	Aliases []Alias
}

// Alias is another name of a tool, with its own input.
type Alias struct {
	Name, Description string
	Schema            json.RawMessage
	// ReadWhen describes the calls by this name that only look.
	ReadWhen toolcall.When
	// Action is the one of the tool's actions that the alias fixes, "" for another name of the whole tool.
	Action string
}

// answersTo reports whether name is the tool's own or an alias.
func (t *Tool) answersTo(name string) bool {
	return t.Name == name || t.Alias(name) != nil
}

// Alias returns the alias called name, or nil.
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

// Find returns the tool that answers to name, or nil.
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

// Match is how a pattern names a tool or an action of one.
type Match int

// The ways, each counting more than those before it.
const (
	NoMatch Match = iota
	GlobMatch
	ExactMatch
	// ActionMatch is an alias that fixes an action.
	ActionMatch
)

// Matches tells how pattern names t: as its name or an alias, or as a glob that matches its name or one of its actions.
// The glob x.* also matches a tool or an alias named x. Older files list x.* for a namespace that is one tool now.
func (t *Tool) Matches(pattern string) Match {
	how := t.matches(pattern)
	for _, unit := range t.Units() {
		how = max(how, t.matchesUnit(pattern, unit))
	}
	return how
}

// matches is [Tool.Matches] for the tool as a whole.
func (t *Tool) matches(pattern string) Match {
	if a := t.Alias(pattern); pattern == t.Name || a != nil && a.Action == "" {
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

// Units are the names by which t is given and withheld: the aliases that fix its actions, or its own name where it has
// no such alias.
func (t *Tool) Units() []string {
	var units []string
	for _, a := range t.Aliases {
		if a.Action != "" {
			units = append(units, a.Name)
		}
	}
	if units == nil {
		return []string{t.Name}
	}
	return units
}

// matchesUnit tells how pattern names one of the units of t.
func (t *Tool) matchesUnit(pattern, unit string) Match {
	if unit == t.Name {
		return t.matches(pattern)
	}
	if pattern == unit {
		return ActionMatch
	}
	if how := t.matches(pattern); how != NoMatch {
		return how
	}
	if ok, err := path.Match(pattern, unit); err == nil && ok && strings.ContainsAny(pattern, "*?") {
		return GlobMatch
	}
	return NoMatch
}

// Given returns the units of t that a list of names gives: all for its own name.
func (t *Tool) Given(names []string) []string {
	if slices.Contains(names, t.Name) {
		return t.Units()
	}
	var given []string
	for _, unit := range t.Units() {
		if slices.Contains(names, unit) {
			given = append(given, unit)
		}
	}
	return given
}

// NamesOf returns the names that give units of t: its own for all of them.
func (t *Tool) NamesOf(units []string) []string {
	if len(units) == len(t.Units()) {
		return []string{t.Name}
	}
	return units
}

// SchemaOf returns the JSON Schema of the input of t with those of its actions alone that units name.
func (t *Tool) SchemaOf(units []string) json.RawMessage {
	if len(units) == len(t.Units()) {
		return t.Schema
	}
	actions := make([]string, 0, len(units))
	for _, unit := range units {
		if a := t.Alias(unit); a != nil {
			actions = append(actions, a.Action)
		}
	}
	var document, properties, action map[string]json.RawMessage
	if json.Unmarshal(t.Schema, &document) != nil || json.Unmarshal(document["properties"], &properties) != nil ||
		json.Unmarshal(properties[ActionParameter], &action) != nil {
		return t.Schema
	}
	action["enum"] = raw(actions)
	properties[ActionParameter] = raw(action)
	document["properties"] = raw(properties)
	return raw(document)
}

// ActionParameter is the parameter by which a tool with actions is told which is meant.
const ActionParameter = "action"

// raw returns a value of plain types as JSON.
func raw(value any) json.RawMessage {
	text, _ := json.Marshal(value)
	return text
}

// Verdict returns the last of switches that names a unit of t most closely, or nil: an action counts more
// than a name, that more than a glob, and of equals the later counts.
func Verdict(switches []Switch, t *Tool, unit string) *Switch {
	best, how := -1, NoMatch
	for i, s := range switches {
		if m := t.matchesUnit(s.Pattern, unit); m != NoMatch && m >= how {
			best, how = i, m
		}
	}
	if best < 0 {
		return nil
	}
	return &switches[best]
}

// Allowed returns those of t's units that switches do not turn off explicitly. An operator's rules that do win over
// every project.
func Allowed(switches []Switch, t *Tool, units []string) []string {
	var allowed []string
	for _, unit := range units {
		if v := Verdict(switches, t, unit); v == nil || v.Enabled {
			allowed = append(allowed, unit)
		}
	}
	return allowed
}
