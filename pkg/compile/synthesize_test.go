package compile

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"kaged.dev/pkg/catalogue"
	"kaged.dev/pkg/dsl"
)

// The synthesized document alone compiles to the project's snapshot under any rules of the operator, except for the
// line numbers of its paths (A-SYN-01 to A-SYN-09).
func TestSynthesizedCompilesToTheSameSnapshot(t *testing.T) {
	main := project("  tools: {read_file: {enabled: true}, \"edit.*\": {enabled: true}, lsp.hover: {enabled: false}}\n" +
		"  subagents:\n    near: {model: fast, system_prompt: ./p.md, tools: {file.read: {enabled: true}}}\n" +
		"    far: {path: ./sub, name: Far, overrides: {primary: {max_steps: 9}}}\n")
	nested := "version: 1\nproject: sub\ndescription: Below.\nprimary:\n  model: smart\n  system_prompt: ./p.md\n" +
		"  tools: {\"file.*\": {enabled: true}}\n" +
		"  cage: {fs: [{mode: rw, path: ./src}], net: {allow: [\"example.com:443\"]}}\n"
	files := func(main string, overlay ...string) []dsl.File {
		list := []dsl.File{{Path: dsl.ProjectFile, Present: true, Content: []byte(main)}, {Path: dsl.OverlayFile}}
		if overlay != nil {
			list[1] = dsl.File{Path: dsl.OverlayFile, Present: true, Content: []byte(overlay[0])}
		}
		return append(
			list,
			dsl.File{Path: "sub/" + dsl.ProjectFile, Present: true, Content: []byte(nested)},
			dsl.File{
				Path: "sub/" + dsl.OverlayFile,
			},
			dsl.File{Path: "p.md", Present: true},
			dsl.File{Path: "sub/p.md", Present: true},
		)
	}
	for name, rules := range map[string][]catalogue.Switch{
		"no rules":          nil,
		"the operator adds": {{Pattern: "shell.*", Enabled: true}},
		"and takes away":    {{Pattern: "session.end"}, {Pattern: "edit.text"}},
	} {
		t.Run(name, func(t *testing.T) {
			in := Input{
				Files: files(main, "primary: {max_steps: 4}\n"), OperatorTools: rules,
				Catalogue: func() (catalogue.Tools, error) { return tools, nil },
			}
			want := snapshotOf(t, in)
			s, err := Synthesize(in)
			if err != nil || s.YAML == nil {
				t.Fatal(err, s.Diagnostics)
			}
			if !s.HasOverlay || !s.HasReferences {
				t.Error("overlay and reference are not told:", s.HasOverlay, s.HasReferences)
			}
			in.Files = files(string(s.YAML))
			lines := cmp.Options{cmpopts.IgnoreFields(dsl.Mount{}, "At"), cmpopts.IgnoreFields(dsl.Place{}, "At")}
			if d := cmp.Diff(want, snapshotOf(t, in), lines); d != "" {
				t.Errorf("another snapshot:\n%s\nof\n%s", d, s.YAML)
			}
			for _, tool := range s.Tools {
				if slices.Contains([]string{"search.grep", "session.end"}, tool) && !strings.Contains(string(s.YAML), tool+":") {
					t.Errorf("%s is a default of the root that is not written:\n%s", tool, s.YAML)
				}
			}
		})
	}
}

func snapshotOf(t *testing.T, in Input) *Project {
	t.Helper()
	out, err := Compile(in)
	if err != nil || out.Project == nil {
		t.Fatal(err, out.Diagnostics, out.Wanted)
	}
	return out.Project
}
