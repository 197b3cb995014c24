package dsl

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// The synthesized document of every fixture is one file that describes the same project (A-SYN-02 to A-SYN-04).
func TestSynthesizeDescribesTheSameProject(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, path := range paths {
		f := readFixture(t, path)
		want := parse(t, f.file).Project
		if want == nil {
			continue
		}
		tried++
		text, err := want.Synthesize(func(*Agent) []string { return nil })
		if err != nil {
			t.Fatal(path, err)
		}
		got := parse(t, func(p string) File {
			if strings.HasSuffix(p, ".yaml") {
				return File{Path: p, Present: p == ProjectFile, Content: text}
			}
			return f.file(p)
		})
		if got.Project == nil {
			t.Errorf("%s: %v\n%s", path, got.Diagnostics, text)
			continue
		}
		places := cmp.Options{
			cmpopts.IgnoreFields(ToolSwitch{}, "Pos"), cmpopts.IgnoreFields(Mount{}, "At"), cmpopts.IgnoreFields(Place{}, "At"),
			cmpopts.IgnoreUnexported(Project{}),
		}
		if d := cmp.Diff(want, got.Project, places); d != "" {
			t.Errorf("%s:\n%s\n%s", path, d, text)
		}
		if strings.Contains(string(text), "path: ../") || strings.Contains(string(text), "\x00") || got.HasReferences {
			t.Errorf("%s: a reference is left:\n%s", path, text)
		}
	}
	if tried < 10 {
		t.Errorf("only %d fixtures hold a project", tried)
	}
}

// A referenced agent has its project's folder, that project's paths, and entries for its default tools.
func TestSynthesizedReference(t *testing.T) {
	p := parse(t, func(path string) File {
		switch path {
		case ProjectFile:
			return File{Path: path, Present: true, Content: []byte(head +
				"  model: m\n  system_prompt: ./p.md\n  subagents:\n    b: {path: ./sub/b, name: The builder}\n")}
		case "sub/b/" + ProjectFile:
			return File{
				Path:    path,
				Present: true,
				Content: []byte("version: 1\nproject: b\nprimary:\n  model: m\n  system_prompt: ./p.md\n" +
					"  cage: {fs: [{mode: ro, path: ./src}]}\n"),
			}
		}
		return File{Path: path, Present: !strings.HasSuffix(path, ".yaml")}
	}).Project
	text, err := p.Synthesize(func(a *Agent) []string {
		if a.Path == "primary" {
			return []string{"kaged.issue"}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `version: 1
project: demo
primary:
  model: m
  system_prompt: project:/p.md
  subagents:
    b:
      model: m
      system_prompt: project:/sub/b/p.md
      cage:
        fs:
          - mode: ro
            path: project:/sub/b/src
      _source:
        project_ref: project:/sub/b
        name: The builder
  tools:
    kaged.issue:
      enabled: true
`
	if d := cmp.Diff(want, string(text)); d != "" {
		t.Error(d)
	}
}

// Any text of a project file is equal after synthesizing and parsing.
func FuzzSynthesizedText(f *testing.F) {
	for _, s := range []string{
		"", "yes", "0x10", "1e3", "- a", "a: b", " lead", "trail ", "a\nb\n", "#c", "~", "null",
		"'", `"`, "{", "é\u2028", "@", "0o7", "1_000", "2001-01-01", "<<", "a\tb",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) && strings.Trim(s, "\n\t") != s ||
			strings.ContainsAny(s, "\r\ufeff") {
			return
		}
		for _, r := range s {
			if unicode.IsControl(r) && r != '\n' && r != '\t' {
				return
			}
		}
		if s == "" || utf8.RuneCountInString(s) > 1000 {
			return
		}
		quoted, _ := json.Marshal(s)
		in := parse(t, only(head+"  model: m\n  system_prompt: ./p.md\n  description: "+string(quoted)+"\n"))
		if in.Project == nil {
			return
		}
		text, err := in.Project.Synthesize(func(*Agent) []string { return nil })
		if err != nil {
			t.Fatal(err)
		}
		out := parse(t, only(string(text)))
		if out.Project == nil || out.Project.Primary.Description != in.Project.Primary.Description {
			t.Fatalf("%q became %v in\n%s", in.Project.Primary.Description, out, text)
		}
	})
}
