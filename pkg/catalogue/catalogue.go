// Package catalogue holds the known tools and their name patterns, shared by the compiler of projects and the agents.
// [Tools] are the tools of a workspace, as listed by its tool-runner.
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
	// RootOnly means that only the root agent may use it. DefaultRoot means that the root agent has it by default.
	RootOnly, DefaultRoot bool
	// Writes is true if it changes files or runs programs.
	Writes bool
	// Parallel is true if calls of one turn may run at the same time.
	Parallel bool
	// ReadWhen matches the read-only calls of a tool that writes.
	ReadWhen toolcall.When
	// WaitWhen matches the calls that wait for outside events, also calls by an alias without an action.
	WaitWhen toolcall.When
	// Aliases are its other names.
	Aliases []Alias
}

// Alias is another name of a tool, with its own input.
type Alias struct {
	Name, Description string
	Schema            json.RawMessage
	// ReadWhen matches the read-only calls by this name.
	ReadWhen toolcall.When
	// Action is the action of the tool that the alias fixes, "" if the alias names the whole tool.
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

// Tools are the known tools in their canonical order. They are immutable.
type Tools []Tool

// Find returns the tool with this name or alias, or nil.
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

// Match is the way a pattern names a tool or an action of it.
type Match int

// The ways, in rising priority.
const (
	NoMatch Match = iota
	GlobMatch
	ExactMatch
	// ActionMatch is an alias that fixes an action.
	ActionMatch
)

// Matches returns the way pattern names t: as its name or an alias, or as a glob that matches its name or one of its
// actions. The glob x.* also matches a tool or an alias named x, because older files list x.* for a namespace that is
// now one tool.
func (t *Tool) Matches(pattern string) Match {
	how := t.matches(pattern)
	for _, unit := range t.Units() {
		how = max(how, t.matchesUnit(pattern, unit))
	}
	return how
}

// matches is [Tool.Matches] without the actions of the tool.
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

// Units are the names that grant and withhold t: the aliases that fix its actions, or its own name without such
// aliases.
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

// matchesUnit returns the way pattern names one of the units of t.
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

// Given returns the units of t that a list of names grants. The tool's own name grants all.
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

// NamesOf returns the names that grant units of t. For all units it is the tool's own name.
func (t *Tool) NamesOf(units []string) []string {
	if len(units) == len(t.Units()) {
		return []string{t.Name}
	}
	return units
}

// SchemaOf returns the JSON Schema of the input of t, limited to the actions in units.
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

// ActionParameter is the parameter that selects the action of a tool.
const ActionParameter = "action"

// raw encodes a value of plain types as JSON.
func raw(value any) json.RawMessage {
	text, _ := json.Marshal(value)
	return text
}

// Verdict returns the switch that decides about a unit of t, or nil. An action has priority over a name, a name over a
// glob, and the later switch over an equal earlier one.
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

// Allowed returns the units of t that switches do not turn off explicitly. An operator's rules that turn a unit off
// override every project.
func Allowed(switches []Switch, t *Tool, units []string) []string {
	var allowed []string
	for _, unit := range units {
		if v := Verdict(switches, t, unit); v == nil || v.Enabled {
			allowed = append(allowed, unit)
		}
	}
	return allowed
}
