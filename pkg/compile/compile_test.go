package compile

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/catalogue"
	"kaged.dev/pkg/dsl"
)

var tools = catalogue.Tools{
	{Name: "file.read", DefaultRoot: true, Aliases: []catalogue.Alias{{Name: "read"}, {Name: "read_file"}}},
	{Name: "file.list", DefaultRoot: true, Aliases: []catalogue.Alias{{Name: "ls"}}},
	{Name: "file.write", Aliases: []catalogue.Alias{{Name: "write"}}},
	{Name: "edit.text"},
	{Name: "search.grep", DefaultRoot: true, Aliases: []catalogue.Alias{{Name: "grep"}}},
	{Name: "shell.bash", Aliases: []catalogue.Alias{{Name: "bash"}}},
	{Name: "code.lsp", DefaultRoot: true, Aliases: []catalogue.Alias{{Name: "lsp.hover"}}},
	{Name: "session.end", RootOnly: true, DefaultRoot: true},
}

func compileWith(t *testing.T, yaml string, operator ...catalogue.Switch) Output {
	t.Helper()
	out, err := Compile(Input{
		Files: []dsl.File{
			{Path: dsl.ProjectFile, Present: true, Content: []byte(yaml)},
			{Path: dsl.OverlayFile},
			{Path: "p.md", Present: true},
			{Path: "gone.md"},
		},
		OperatorTools: operator,
		Catalogue:     func() (catalogue.Tools, error) { return tools, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func project(tools string) string {
	return "version: 1\nproject: demo\ndescription: A demo.\nprimary:\n  model: smart\n  system_prompt: ./p.md\n" + tools
}

// The root agent has the catalogue's defaults, then the operator's and the project's changes, and no tool that the
// operator turned off (decision 1, H-TOOL-RES-01, T-RES-04 to T-RES-07).
func TestRootTools(t *testing.T) {
	const defaults = "file.read file.list search.grep code.lsp session.end"
	on, off := func(p string) catalogue.Switch { return catalogue.Switch{Pattern: p, Enabled: true} },
		func(p string) catalogue.Switch { return catalogue.Switch{Pattern: p} }
	for name, tt := range map[string]struct {
		tools    string
		operator []catalogue.Switch
		want     string
	}{
		"defaults": {"", nil, defaults},
		"the project adds": {
			"  tools: {shell.bash: {enabled: true}, \"edit.*\": {enabled: true}}", nil,
			"file.read file.list edit.text search.grep shell.bash code.lsp session.end",
		},
		"the project takes away": {
			"  tools: {\"*\": {enabled: false}, file.read: {enabled: true}}", nil, "file.read",
		},
		"the operator adds": {
			"", []catalogue.Switch{on("shell.*")}, "file.read file.list search.grep shell.bash code.lsp session.end",
		},
		"the project refuses the operator's": {
			"  tools: {shell.bash: {enabled: false}}",
			[]catalogue.Switch{on("*")},
			"file.read file.list file.write edit.text search.grep code.lsp session.end",
		},
		"the operator's no is final": {
			"  tools: {shell.bash: {enabled: true}, file.write: {enabled: true}}",
			[]catalogue.Switch{off("*"), on("file.*"), off("file.list")},
			"file.read file.write",
		},
		"an old namespace": {
			"  tools: {\"*\": {enabled: false}, \"lsp.*\": {enabled: true}}", nil, "code.lsp",
		},
	} {
		t.Run(name, func(t *testing.T) {
			out := compileWith(t, project(tt.tools), tt.operator...)
			if out.Project == nil {
				t.Fatal(out.Diagnostics)
			}
			if got := strings.Join(out.Project.Root.Tools, " "); got != tt.want {
				t.Errorf("tools are %s", got)
			}
			both := map[string]int{} // each tool of the catalogue is in exactly one of the two lists (A-PROJ-CAP-04)
			for _, tool := range slices.Concat(out.Project.Root.Tools, out.Project.ToolsOff) {
				both[tool]++
			}
			for _, tool := range tools {
				if both[tool.Name] != 1 {
					t.Errorf("%s is listed %d times", tool.Name, both[tool.Name])
				}
			}
			if len(both) != len(tools) {
				t.Errorf("%d tools are listed", len(both))
			}
		})
	}
}

// The model sees a tool under the alias by which the project asks for it; a profile has the twenty flat names.
func TestAliases(t *testing.T) {
	out := compileWith(
		t,
		project("  tools: {read_file: {enabled: true}, bash: {enabled: true}, file.list: {enabled: true}, ls: {enabled: "+
			"true}, grep: {enabled: false}}"),
	)
	want := map[string]string{"file.read": "read_file", "shell.bash": "bash", "file.list": "ls"}
	if d := cmp.Diff(want, out.Project.Root.Aliases); d != "" {
		t.Error(d)
	}
	out = compileWith(
		t, project("  tools_profile: flat20\n  tools: {write: {enabled: false}, file.read: {enabled: true}}"),
	)
	if got := strings.Join(out.Project.Root.Tools, " "); got != "file.read file.list search.grep" {
		t.Error(got)
	}
	if d := cmp.Diff(map[string]string{"file.list": "ls", "search.grep": "grep"}, out.Project.Root.Aliases); d != "" {
		t.Error(d)
	}
}

// Other agents begin without tools and get those of their own entry, not the root's (T-RES-02, T-RES-08, H-TOOL-RES-02,
// H-TOOL-RES-04, H-DSL-TREE-01).
func TestSubagentTools(t *testing.T) {
	sub := func(tools string) string {
		return project("  subagents:\n    b: {model: fast, system_prompt: ./p.md}\n    a:\n      model: fast\n      " +
			"system_prompt: ./p.md\n      tools: {" + tools + "}\n")
	}
	out := compileWith(t, sub(`"*": {enabled: true}`), catalogue.Switch{Pattern: "shell.bash"},
		catalogue.Switch{Pattern: "edit.*", Enabled: true})
	children := out.Project.Root.Children
	if len(children) != 2 || children[0].Key != "a" || children[1].Path != "primary.subagents.b" ||
		len(children[1].Tools) != 0 {
		t.Fatalf("%+v", children)
	}
	if got := strings.Join(
		children[0].Tools, " ",
	); got != "file.read file.list file.write edit.text search.grep code.lsp" {
		t.Error(got)
	}
	out = compileWith(t, sub(`"session.*": {enabled: true}, session.end: {enabled: false}`))
	if out.Project != nil || len(out.Diagnostics) != 1 {
		t.Fatal(out.Diagnostics)
	}
	d := out.Diagnostics[0]
	if d.Kind != dsl.PrincipalScope || d.Path != `primary.subagents.a.tools["session.*"]` || d.Pos.Line != 12 {
		t.Error(d)
	}
}

// A pattern that matches no tool is a warning with its position (T-RES-12).
func TestUnmatchedPattern(t *testing.T) {
	out := compileWith(t, project("  tools:\n    \"dap.*\": {enabled: true}\n    agent-x: {enabled: false}\n"))
	if out.Project == nil || len(out.Diagnostics) != 2 {
		t.Fatal(out.Diagnostics)
	}
	for i, d := range out.Diagnostics {
		if d.Kind != dsl.ToolUnmatched || d.Severity != dsl.Warning || d.Pos.Line != 8+i {
			t.Error(d)
		}
	}
}

// The snapshot is the file's content as one tree of agents, and the used names are listed (H-DSL-BOUND-01,
// H-DSL-OUT-01, H-DSL-OUT-02, H-TEST-DSL-01). The catalogue is not read if there are errors or missing files.
func TestOutput(t *testing.T) {
	out := compileWith(
		t,
		project("  max_steps: 7\n  on_crash: resume\n  cage: {fs: []}\n  subagents: {a: {model: fast, system_prompt: "+
			"./gone.md}}\n"),
	)
	root := out.Project.Root
	if out.Project.Slug != "demo" || out.Project.Description != "A demo." || out.Project.Version != 1 ||
		root.MaxSteps != 7 || !root.ResumeOnCrash ||
		root.Cage == nil || !root.IncludeToolResults || root.PromptPath != "p.md" {
		t.Errorf("%+v %+v", out.Project, root)
	}
	if len(root.Children) != 1 || root.Children[0].Path != "primary.subagents.a" || root.Children[0].Model != "fast" ||
		root.Children[0].Cage != root.Cage {
		t.Errorf("the child: %+v", root.Children)
	}
	want := []dsl.Reference{
		{Name: "gone.md", UsedBy: []string{"primary.subagents.a.system_prompt"}},
		{Name: "p.md", UsedBy: []string{"primary.system_prompt"}, Present: true},
	}
	if d := cmp.Diff(want, out.Prompts); d != "" {
		t.Error(d)
	}
	if len(out.Aliases) != 2 {
		t.Error(out.Aliases)
	}

	never := func() (catalogue.Tools, error) {
		t.Error("the catalogue was asked")
		return nil, nil
	}
	if out, err := Compile(Input{Catalogue: never}); err != nil || len(out.Wanted) != 2 || out.Project != nil {
		t.Error(out, err)
	}
	gone := errors.New("gone")
	if _, err := Compile(Input{
		Files: []dsl.File{
			{Path: dsl.ProjectFile, Present: true, Content: []byte(project(""))}, {Path: dsl.OverlayFile}, {Path: "p.md"},
		},
		Catalogue: func() (catalogue.Tools, error) { return nil, gone },
	}); !errors.Is(err, gone) {
		t.Error(err)
	}
}

// An agent with a disabled cage has no cage, an agent with a cage has its grants, and a child without an entry shares
// its parent's cage (H-DSL-TREE-03, T-DISP-09).
func TestCages(t *testing.T) {
	out := compileWith(t, project("  cage: disabled\n  subagents:\n    free: {model: fast, system_prompt: ./p.md}\n"+
		"    caged: {model: fast, system_prompt: ./p.md, cage: {net: {allow: [\"example.com:443\"]}}}\n"))
	if out.Project == nil {
		t.Fatal(out.Diagnostics)
	}
	got := map[string]bool{"primary": out.Project.Root.Cage != nil}
	for _, child := range out.Project.Root.Children {
		got[child.Key] = child.Cage != nil
	}
	if d := cmp.Diff(map[string]bool{"primary": false, "free": false, "caged": true}, got); d != "" {
		t.Error(d)
	}
}
