package compile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"kaged.dev/pkg/catalogue"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
)

// flatCatalogue has a tool for each of the twenty flat names and some more.
func flatCatalogue() catalogue.Tools {
	list := catalogue.Tools{
		{Name: "file.create"},
		{Name: "kaged.issue", RootOnly: true, DefaultRoot: true},
		{Name: "search.ast", DefaultRoot: true},
	}
	for _, f := range dsl.Flat20Tools() {
		list = append(list, catalogue.Tool{Name: f.Group + "." + f.Name, Aliases: []catalogue.Alias{{Name: f.Name}}})
	}
	return list
}

func explain(t *testing.T, all catalogue.Tools, agent, yaml string, operator ...catalogue.Switch) (Explanation, error) {
	t.Helper()
	in := Input{OperatorTools: operator, Catalogue: func() (catalogue.Tools, error) { return all, nil }}
	if yaml != "" {
		in.Files = []dsl.File{
			{Path: dsl.ProjectFile, Present: true, Content: []byte(yaml)},
			{Path: dsl.OverlayFile},
			{Path: "p.md", Present: true},
		}
	}
	return Explain(in, agent)
}

// The flat profile gives the root agent exactly the twenty tools, and other agents the six read-only ones, under their
// flat names; each has its group (T-T20-05, T-T20-06, T-T20-07, T-T20-08).
func TestFlatProfile(t *testing.T) {
	yaml := project("  tools_profile: flat20\n  subagents:\n    a: {model: fast, system_prompt: ./p.md, tools_profile: " +
		"flat20}\n")
	for agent, want := range map[string]string{
		"": "read write edit apply_patch grep glob ls exec process cron message agents_list " +
			"sessions_list sessions_history sessions_send sessions_spawn subagents sessions_status memory_search memory_get",
		"primary.subagents.a": "read grep glob ls memory_search memory_get",
	} {
		out, err := explain(t, flatCatalogue(), agent, yaml)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, d := range out.Decisions {
			if d.Enabled {
				names = append(names, d.ShownAs)
			}
			if d.Enabled && (d.By != ByProfile || d.Pattern != dsl.Flat20) {
				t.Errorf("%+v", d)
			}
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%q has %s", agent, got)
		}
	}
	groups := map[string]int{}
	for _, f := range dsl.Flat20Tools() {
		groups[f.Group]++
	}
	if got := fmt.Sprint(
		groups,
	); got != "map[automation:1 fs:7 introspection:1 memory:2 messaging:1 runtime:2 sessions:6]" {
		t.Errorf("groups %s", got)
	}
}

// Explain gives for each tool the deciding layer, its pattern, and the pattern's position.
func TestExplain(t *testing.T) {
	yaml := project("  tools:\n    \"edit.*\": {enabled: true}\n    search.grep: {enabled: false}\n    bash: {enabled: " +
		"true}\n  subagents:\n    a:\n      model: fast\n      system_prompt: ./p.md\n      cage: {fs: []}\n      tools: " +
		"{read: {enabled: true}}\n")
	operator := []catalogue.Switch{{Pattern: "file.write", Enabled: true}, {Pattern: "code.*"}}
	for agent, want := range map[string][]string{
		"": {
			"file.read on default", "file.list on default", `file.write on operator "file.write"`,
			`edit.text on agent "edit.*":8`,
			`search.grep off agent "search.grep":9`, `shell.bash on agent "bash":10 as bash`, `code.lsp off operator "code.*"`,
			"session.end on default",
		},
		"primary.subagents.a": {
			`file.read on agent "read":16 as read`, "file.list off default", "file.write off default", "edit.text off default",
			"search.grep off default",
			"shell.bash off default", `code.lsp off operator "code.*"`, "session.end off scope",
		},
	} {
		out, err := explain(t, tools, agent, yaml, operator...)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range out.Decisions {
			got = append(got, say(d))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q:\n%s", agent, strings.Join(got, "\n"))
		}
		if (out.Agent.Cage == nil) != (agent == "") || out.Project != "demo" || len(out.Agents) != 2 {
			t.Errorf("%+v", out)
		}
	}
}

func say(d Decision) string {
	state := map[bool]string{true: "on", false: "off"}[d.Enabled]
	by := map[Layer]string{
		ByDefault: "default", ByOperator: "operator", ByProfile: "profile", ByAgent: "agent", ByScope: "scope",
	}[d.By]
	text := d.Tool + " " + state + " " + by
	if d.Pattern != "" {
		text += fmt.Sprintf(" %q", d.Pattern)
	}
	if d.Pos.Line > 0 {
		text += fmt.Sprintf(":%d", d.Pos.Line)
	}
	if d.ShownAs != "" {
		text += " as " + d.ShownAs
	}
	return text
}

// Explain agrees with Compile for every agent.
func TestExplainAgreesWithCompile(t *testing.T) {
	yaml := project("  tools: {\"*\": {enabled: true}, edit.text: {enabled: false}}\n  subagents: {a: {model: fast, " +
		"system_prompt: ./p.md, tools: {\"search.*\": {enabled: true}}}}\n")
	compiled := compileWith(t, yaml).Project.Root
	for _, a := range []*Agent{compiled, compiled.Children[0]} {
		out, err := explain(t, tools, a.Path, yaml)
		if err != nil {
			t.Fatal(err)
		}
		var on []string
		for _, d := range out.Decisions {
			if d.Enabled {
				on = append(on, d.Tool)
			}
		}
		if !slices.Equal(on, a.Tools) {
			t.Errorf("%s: explained %v, compiled %v", a.Path, on, a.Tools)
		}
	}
}

// Without a project Explain explains the root agent's defaults. An unknown agent is not_found with the known agents; an
// invalid project gives its errors.
func TestExplainWithoutAnAgent(t *testing.T) {
	out, err := explain(t, tools, "", "")
	if err != nil || len(out.Decisions) != len(tools) || out.Project != "" || out.Agent.Path != "primary" {
		t.Errorf("no project: %+v %v", out, err)
	}
	_, err = explain(t, tools, "primary.subagents.b", project(""))
	if !errors.Is(err, fault.NotFound) || len(fault.From(err).Details["agents"].([]any)) != 1 {
		t.Errorf("no such agent: %v", err)
	}
	out, err = explain(t, tools, "", "version: 9\n")
	if err != nil || out.Agent != nil || len(out.Diagnostics) == 0 {
		t.Errorf("a broken project: %+v %v", out, err)
	}
	out, err = explain(t, tools, "", project("  tools: {nothing.at.all: {enabled: true}}\n"))
	if err != nil || len(out.Diagnostics) != 1 || out.Diagnostics[0].Kind != dsl.ToolUnmatched {
		t.Errorf("a pattern for nothing: %+v %v", out.Diagnostics, err)
	}
}
