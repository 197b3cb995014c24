package compile

import (
	"fmt"
	"slices"

	"kaged.dev/pkg/catalogue"
	"kaged.dev/pkg/dsl"
)

// resolver decides the tools of each agent.
type resolver struct {
	catalogue   catalogue.Tools
	operator    []catalogue.Switch
	diagnostics []dsl.Diagnostic
}

func (r *resolver) agent(a *dsl.Agent, isRoot bool) *Agent {
	out := &Agent{
		Key: a.Key, Path: a.Path, Model: a.Model, PromptPath: a.Prompt, Description: a.Description,
		MaxSteps: a.MaxSteps, MaxOutputTokens: a.MaxOutputTokens, Cage: a.Cage, Budget: a.Budget, Policy: a.Policy,
		Compaction:    a.Compaction,
		ResumeOnCrash: a.ResumeOnCrash, AutoTodos: a.AutoTodos, IncludeToolResults: a.IncludeToolResults,
		ParentContext: a.ParentContext, AgentsMD: a.AgentsMD, ApproveWrites: a.ApproveWrites,
	}
	r.tools(a, out, isRoot)
	for _, child := range a.Subagents {
		out.Children = append(out.Children, r.agent(child, false))
	}
	return out
}

// tools sets an agent's tools and checks their patterns.
func (r *resolver) tools(a *dsl.Agent, out *Agent, isRoot bool) {
	for _, d := range r.decide(a, isRoot) {
		if !d.Enabled {
			continue
		}
		out.Tools = append(out.Tools, d.Names...)
		out.Writes = out.Writes || r.catalogue.Find(d.Tool).Writes
		if d.ShownAs != "" {
			if out.Aliases == nil {
				out.Aliases = map[string]string{}
			}
			out.Aliases[d.Tool] = d.ShownAs
		}
	}
	r.checkPatterns(a, isRoot)
}

// skillTool is the tool that instructions.skills grants.
const skillTool = "project.skill"

// decide applies the layers in order: the root's defaults, the operator's rules, the agent's profile and tools, and
// again the operator's disabled tools. A profile replaces the defaults.
func (r *resolver) decide(a *dsl.Agent, isRoot bool) []Decision {
	own := make([]catalogue.Switch, 0, len(a.Tools)+1)
	if a.Skills { // the agent's own entries have priority
		own = append(own, catalogue.Switch{Pattern: skillTool, Enabled: true})
	}
	for _, s := range a.Tools {
		own = append(own, s.Switch)
	}
	profile := profileSwitches(a.ToolsProfile, isRoot)
	list := make([]Decision, len(r.catalogue))
	for i := range r.catalogue {
		t := &r.catalogue[i]
		d := r.verdicts(t, own, profile, isRoot)
		switch d.By {
		case ByAgent:
			d.Pos = positionOf(a, d.Pattern)
		case ByProfile:
			d.Pattern = a.ToolsProfile
		}
		if d.Enabled {
			d.ShownAs = shownAs(t, own, profile)
		}
		list[i] = d
	}
	return list
}

// verdicts decides about each unit of t. The layer and the pattern are those of a unit that the agent has, if any.
func (r *resolver) verdicts(t *catalogue.Tool, own, profile []catalogue.Switch, isRoot bool) Decision {
	d := Decision{Tool: t.Name}
	var given []string
	for _, unit := range t.Units() {
		enabled, by, pattern := r.verdict(t, unit, own, profile, isRoot)
		if enabled {
			given = append(given, unit)
		}
		if d.By == 0 || enabled && !d.Enabled {
			d.Enabled, d.By, d.Pattern = enabled, by, pattern
		}
	}
	if d.Enabled {
		d.Names = t.NamesOf(given)
	}
	return d
}

// verdict reports whether an agent has a unit of t, with the deciding layer and pattern.
func (r *resolver) verdict(t *catalogue.Tool, unit string, own, profile []catalogue.Switch, isRoot bool) (enabled bool,
	by Layer, pattern string,
) {
	operator := catalogue.Verdict(r.operator, t, unit)
	switch {
	case t.RootOnly && !isRoot:
		return false, ByScope, ""
	case operator != nil && !operator.Enabled:
		return false, ByOperator, operator.Pattern
	}
	if v := catalogue.Verdict(own, t, unit); v != nil {
		return v.Enabled, ByAgent, v.Pattern
	}
	if v := catalogue.Verdict(profile, t, unit); v != nil {
		return v.Enabled, ByProfile, v.Pattern
	}
	if isRoot && operator != nil {
		return true, ByOperator, operator.Pattern
	}
	return isRoot && profile == nil && t.DefaultRoot, ByDefault, ""
}

// positionOf returns the position of a pattern in an agent's tools, of several the last.
func positionOf(a *dsl.Agent, pattern string) dsl.Position {
	for _, s := range slices.Backward(a.Tools) {
		if s.Pattern == pattern {
			return s.Pos
		}
	}
	return dsl.Position{}
}

// shownAs returns the alias by which an agent asked for t, "" for the canonical name or a pattern.
func shownAs(t *catalogue.Tool, own, profile []catalogue.Switch) string {
	for _, layer := range [][]catalogue.Switch{own, profile} {
		v := catalogue.Verdict(layer, t, t.Name)
		if v == nil || t.Matches(v.Pattern) != catalogue.ExactMatch {
			continue
		}
		if v.Pattern == t.Name {
			return ""
		}
		return v.Pattern
	}
	return ""
}

func profileSwitches(profile string, isRoot bool) []catalogue.Switch {
	if profile != dsl.Flat20 {
		return nil
	}
	var out []catalogue.Switch
	for _, t := range dsl.Flat20Tools() {
		if isRoot || t.Subagent {
			out = append(out, catalogue.Switch{Pattern: t.Name, Enabled: true})
		}
	}
	return out
}

// checkPatterns warns about patterns without a match and refuses patterns that give a subagent a tool of the root
// agent.
func (r *resolver) checkPatterns(a *dsl.Agent, isRoot bool) {
	for _, s := range a.Tools {
		path := fmt.Sprintf("%s.tools[%q]", a.Path, s.Pattern)
		matched, rootOnly := 0, 0
		for i := range r.catalogue {
			if r.catalogue[i].Matches(s.Pattern) != catalogue.NoMatch {
				matched++
				if r.catalogue[i].RootOnly {
					rootOnly++
				}
			}
		}
		switch {
		case matched == 0:
			r.diagnostics = append(r.diagnostics, dsl.Diagnostic{
				Kind: dsl.ToolUnmatched, Severity: dsl.Warning, Path: path, Pos: s.Pos,
				Message: fmt.Sprintf("%q names no tool that this kaged has.", s.Pattern),
			})
		case s.Enabled && !isRoot && rootOnly == matched:
			r.diagnostics = append(r.diagnostics, dsl.Diagnostic{
				Kind: dsl.PrincipalScope, Path: path, Pos: s.Pos,
				Message: fmt.Sprintf("%q is for the root agent only.", s.Pattern),
			})
		}
	}
}
