package compile

import (
	"fmt"

	"kaged.dev/pkg/dsl"
	"kaged.dev/services/harness/internal/core"
)

// resolver gives each agent its tools.
type resolver struct {
	catalogue   core.Catalogue
	operator    []core.ToolSwitch
	diagnostics []dsl.Diagnostic
}

func (r *resolver) agent(a *dsl.Agent, isRoot bool) *core.Agent {
	out := &core.Agent{
		Key: a.Key, Path: a.Path, Model: a.Model, PromptPath: a.Prompt, Description: a.Description,
		MaxSteps: a.MaxSteps, MaxOutputTokens: a.MaxOutputTokens, Cage: a.Cage,
		ResumeOnCrash: a.ResumeOnCrash, IncludeToolResults: a.IncludeToolResults,
	}
	r.tools(a, out, isRoot)
	for _, child := range a.Subagents {
		out.Children = append(out.Children, r.agent(child, false))
	}
	return out
}

// tools resolves the layers, each over the one before: what the root has by default, the operator's rules, the agent's
// profile and tools, and once more what the operator turned off.
func (r *resolver) tools(a *dsl.Agent, out *core.Agent, isRoot bool) {
	own := make([]core.ToolSwitch, len(a.Tools))
	for i, s := range a.Tools {
		own[i] = core.ToolSwitch{Pattern: s.Pattern, Enabled: s.Enabled}
	}
	profile := profileSwitches(a.ToolsProfile)
	for i := range r.catalogue {
		t := &r.catalogue[i]
		if t.RootOnly && !isRoot || !r.enabled(t, own, profile, isRoot) {
			continue
		}
		out.Tools = append(out.Tools, t.Name)
		if alias := shownAs(t, own, profile); alias != "" {
			if out.Aliases == nil {
				out.Aliases = map[string]string{}
			}
			out.Aliases[t.Name] = alias
		}
	}
	r.checkPatterns(a, isRoot)
}

func (r *resolver) enabled(t *core.Tool, own, profile []core.ToolSwitch, isRoot bool) bool {
	if core.TurnedOff(r.operator, t) {
		return false
	}
	if v := core.Verdict(own, t); v != nil {
		return v.Enabled
	}
	if v := core.Verdict(profile, t); v != nil {
		return v.Enabled
	}
	return isRoot && (t.DefaultRoot || core.Verdict(r.operator, t) != nil)
}

// shownAs returns the alias by which an agent asked for t, "" if it asked for it by its own name or by none.
func shownAs(t *core.Tool, own, profile []core.ToolSwitch) string {
	for _, layer := range [][]core.ToolSwitch{own, profile} {
		v := core.Verdict(layer, t)
		if v == nil || t.Matches(v.Pattern) != core.ExactMatch {
			continue
		}
		if v.Pattern == t.Name {
			return ""
		}
		return v.Pattern
	}
	return ""
}

func profileSwitches(profile string) []core.ToolSwitch {
	if profile != dsl.Flat20 {
		return nil
	}
	var out []core.ToolSwitch
	for _, name := range dsl.Flat20Tools() {
		out = append(out, core.ToolSwitch{Pattern: name, Enabled: true})
	}
	return out
}

// checkPatterns warns about patterns that name nothing and refuses those that give a subagent what is the root's alone.
func (r *resolver) checkPatterns(a *dsl.Agent, isRoot bool) {
	for _, s := range a.Tools {
		path := fmt.Sprintf("%s.tools[%q]", a.Path, s.Pattern)
		matched, rootOnly := 0, 0
		for i := range r.catalogue {
			if r.catalogue[i].Matches(s.Pattern) != core.NoMatch {
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
