package dsl

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/quick"
	"time"

	"github.com/google/go-cmp/cmp"
)

// only answers with one project file and with every prompt.
func only(yaml string) func(string) File {
	return func(path string) File {
		if path == ProjectFile {
			return File{Path: path, Present: true, Content: []byte(yaml)}
		}
		return File{Path: path, Present: !strings.HasSuffix(path, ".yaml")}
	}
}

// kinds returns the kinds of all findings except keys without effect.
func kinds(r Result) []Kind {
	var out []Kind
	for _, d := range inForce(r) {
		out = append(out, d.Kind)
	}
	return out
}

// inForce returns the diagnostics of keys that have an effect.
func inForce(r Result) []Diagnostic {
	return slices.DeleteFunc(slices.Clone(r.Diagnostics), func(d Diagnostic) bool { return d.Kind == NotInForce })
}

const head = "version: 1\nproject: demo\nprimary:\n"

// nested returns a project with the given number of levels of agents.
func nested(levels int) string {
	var b strings.Builder
	b.WriteString(head)
	for i := range levels {
		pad := strings.Repeat("    ", i) + "  "
		fmt.Fprintf(&b, "%smodel: m\n%ssystem_prompt: ./p.md\n", pad, pad)
		if i < levels-1 {
			fmt.Fprintf(&b, "%ssubagents:\n%s  a:\n", pad, pad)
		}
	}
	return b.String()
}

// Sixteen levels of agents are allowed; the seventeenth is refused (H-DSL-TREE-02).
func TestDepth(t *testing.T) {
	if r := parse(t, only(nested(MaxDepth))); r.Failed() {
		t.Error(r.Diagnostics)
	}
	r := parse(t, only(nested(MaxDepth+1)))
	if d := cmp.Diff([]Kind{DepthExceeded}, kinds(r)); d != "" {
		t.Error(d)
	}
	if want := "primary" + strings.Repeat(".subagents.a", MaxDepth); inForce(r)[0].Path != want {
		t.Errorf("path is %s, want %s", inForce(r)[0].Path, want)
	}
}

// References that multiply agents stop at the limit.
func TestReferencesCannotMultiplyWithoutBound(t *testing.T) {
	file := func(path string) File {
		_, isProject := strings.CutSuffix(path, ProjectFile)
		if !isProject {
			return File{Path: path, Present: strings.HasSuffix(path, ".md")}
		}
		var b strings.Builder
		b.WriteString(head + "  model: m\n  system_prompt: ./p.md\n  subagents:\n")
		for i := range 12 {
			fmt.Fprintf(&b, "    a%d: {path: ./x}\n", i)
		}
		return File{Path: path, Present: true, Content: []byte(b.String())}
	}
	r := parse(t, file)
	if list := inForce(r); len(list) == 0 || list[0].Kind != DepthExceeded {
		t.Error(list)
	}
}

// References to missing files stop at the same limit.
func TestReferencesThatFailAreCounted(t *testing.T) {
	var b strings.Builder
	b.WriteString(head + "  model: m\n  system_prompt: ./p.md\n  subagents:\n")
	for i := range 5 {
		fmt.Fprintf(&b, "    a%d:\n      model: m\n      system_prompt: ./p.md\n      subagents:\n", i)
		for j := range 64 {
			fmt.Fprintf(&b, "        b%d: {path: ./x}\n", j)
		}
	}
	r := parse(t, only(b.String()))
	// 251 of 320 references are resolved; two more errors report too many agents.
	if end := r.Diagnostics[len(r.Diagnostics)-1]; end.Kind != TooMany || !strings.Contains(end.Message, "203 more") {
		t.Error(end)
	}
}

// Files that are short enough one by one are refused if they are too long together.
func TestProjectTooLong(t *testing.T) {
	var b strings.Builder
	b.WriteString(head + "  model: m\n  system_prompt: ./p.md\n  subagents:\n")
	for i := range 64 {
		fmt.Fprintf(&b, "    a%d: {path: ./x%d}\n", i, i)
	}
	long := head + "  model: m\n  system_prompt: ./p.md\n  description: [" + strings.Repeat("a, ", maxTokens/3) + "]\n"
	r := parse(t, func(path string) File {
		if path == ProjectFile {
			return File{Path: path, Present: true, Content: []byte(b.String())}
		}
		return File{Path: path, Present: !strings.HasSuffix(path, OverlayFile), Content: []byte(long)}
	})
	if !slices.ContainsFunc(
		r.Diagnostics,
		func(d Diagnostic) bool { return strings.Contains(d.Message, "YAML tokens together") },
	) {
		t.Error(r.Diagnostics)
	}
}

// Merging two maps takes linear time.
func TestMergeIsLinear(t *testing.T) {
	wide := &node{kind: mapNode}
	for i := range 5000 {
		wide.entries = append(wide.entries, entry{key: fmt.Sprint(i), value: &node{kind: intNode}})
	}
	if n := testing.AllocsPerRun(1, func() { merge(wide, wide) }); n > 500 {
		t.Errorf("%.0f allocations for two maps of 5000 keys", n)
	}
}

// Fifty errors are listed and the rest is counted, so that a hostile file cannot make the result large.
func TestErrorsAreCapped(t *testing.T) {
	var b strings.Builder
	b.WriteString(head + "  model: m\n  system_prompt: ./p.md\n")
	for i := range 80 {
		fmt.Fprintf(&b, "  wrong_key_%d: 1\n", i)
	}
	r := parse(t, only(b.String()))
	if len(r.Diagnostics) != maxErrors+1 {
		t.Fatalf("%d diagnostics", len(r.Diagnostics))
	}
	if end := r.Diagnostics[maxErrors]; end.Kind != TooMany || !strings.Contains(end.Message, "30 more") {
		t.Error(end)
	}
}

// Input that would exhaust the YAML library's stack, time or memory is refused with a parse error.
func TestHostileInput(t *testing.T) {
	for name, src := range map[string]string{
		"too long":        head + "  description: " + strings.Repeat("x", MaxFileSize),
		"brackets":        strings.Repeat("[", MaxFileSize/8),
		"braces":          strings.Repeat("{a: ", 20_000),
		"dashes":          strings.Repeat("- ", 40_000) + "a",
		"dashes on lines": strings.Repeat("-\n ", 30_000),
		"questions":       strings.Repeat("? ", 40_000),
		"anchors":         strings.Repeat("&a ", 30_000),
		"tags":            strings.Repeat("!a ", 30_000),
		"wide map":        strings.Repeat("a: b\n", 20_000),
		"wide list":       "a:\n" + strings.Repeat("- b\n", 20_000),
		"colons":          strings.Repeat("a: ", 30_000),
		"quotes":          strings.Repeat("\"\" ", 30_000),
		"merges":          strings.Repeat("<<: a\n", 15_000),
		"directives":      strings.Repeat("%a\n", 30_000),
		"not UTF-8":       head + "  description: \xff\xfe\n",
		"UTF-16":          "\xff\xfev\x00e\x00r\x00",
		"delete":          "version: 1\x7f",
	} {
		t.Run(name, func(t *testing.T) {
			r := parse(t, only(src))
			if len(r.Diagnostics) == 0 || r.Diagnostics[0].Kind != ParseError {
				t.Error(r.Diagnostics)
			}
		})
	}
}

// A byte order mark, Windows line ends and block scalars change neither values nor positions.
func TestTextForms(t *testing.T) {
	src := "\ufeff" + strings.ReplaceAll(
		head+"  model: m\n  description: |\n    One [[[\n    two.\n  system_prompt: ./p.md\n  max_steps: 0\n",
		"\n",
		"\r\n",
	)
	r := parse(t, only(src))
	want := []Diagnostic{{
		Kind: SchemaViolation, Path: "primary.max_steps", Pos: Position{ProjectFile, 9, 14},
		Message: "max_steps is 0 and must be from 1 to 100.",
	}}
	if d := cmp.Diff(want, r.Diagnostics); d != "" {
		t.Error(d)
	}
	r = parse(
		t,
		only(head+"  model: m\n  system_prompt: ./p.md\n  description: >-\n    One\n    two.\n\n    Three.\n  plugins:\n"+
			"    a: {package: p, config: {t: \"a\\tb\", n: -0x10, f: 1.5e3}}\n"),
	)
	if a := r.Project.Primary; a.Description != "One two.\nThree." ||
		!reflect.DeepEqual(a.Plugins[0].Config, map[string]any{"t": "a\tb", "n": -16.0, "f": 1500.0}) {
		t.Errorf("%+v", a)
	}
	for _, number := range []string{".inf", ".nan", "1e999"} {
		if r := parse(t, only(head+"  model: m\n  system_prompt: ./p.md\n  max_steps: "+number+"\n")); !r.Failed() {
			t.Errorf("%s is a number of steps", number)
		}
	}
}

// Position returns the position of a value by its tree path, and for a missing value that of the nearest value around
// it.
func TestPosition(t *testing.T) {
	r := parse(t, only(head+"  model: m\n  system_prompt: ./p.md\n  tools:\n    \"file.*\": {enabled: true}\n"))
	for path, want := range map[string]Position{
		"primary.model":                   {ProjectFile, 4, 10},
		"primary.system_prompt":           {ProjectFile, 5, 18},
		`primary.tools["file.*"].enabled`: {ProjectFile, 7, 25},
		"primary.tools.other.enabled":     {ProjectFile, 7, 5},
		"primary.subagents.a.model":       {ProjectFile, 4, 3},
		"nothing":                         {File: ProjectFile},
	} {
		if got := r.Project.Position(path); got != want {
			t.Errorf("%s is at %v, want %v", path, got, want)
		}
	}
	var paths []string
	for a := range r.Project.Agents {
		paths = append(paths, a.Path)
	}
	if d := cmp.Diff([]string{"primary"}, paths); d != "" {
		t.Error(d)
	}
}

// A reference stays inside the outermost project's folder, however it is written.
func TestReferencePath(t *testing.T) {
	for _, tt := range []struct {
		path, root, want string
		ok               bool
	}{
		{"./a", "", "a", true},
		{"project:/a/b/", "x", "x/a/b", true},
		{"../b", "a", "b", true},
		{"../../c", "a/b", "c", true},
		{"../", "a", "", true},
		{"../a", "", "", false},
		{"../../a", "x", "", false},
	} {
		got, ok := referencePath(tt.path, tt.root)
		if got != tt.want && tt.ok || ok != tt.ok {
			t.Errorf("%s from %q is %q %t", tt.path, tt.root, got, ok)
		}
	}
}

// A file with only a cage block is parsed like the block in a project, with sizes and durations in their units; its
// paths keep their positions.
func TestParseCage(t *testing.T) {
	c, diags := ParseCage(
		"policy.yaml",
		[]byte("fs: [{mode: ro, path: ./}]\nlimits: {memory: 16777216, disk: 2000KB, cpu: 0.5, walltime: 1500ms}\n"),
	)
	want := &Cage{
		FS: []Mount{{"ro", "project:/", "policy.yaml:1:23"}}, Seccomp: "default", State: "ephemeral",
		Limits: Limits{Memory: 16 << 20, Disk: 2_000_000, CPU: 0.5, Walltime: 1500 * time.Millisecond},
	}
	if d := cmp.Diff(want, c); d != "" || diags != nil {
		t.Error(d, diags)
	}
	if c, diags = ParseCage("policy.yaml", []byte("fs: x\n")); c != nil || len(diags) != 1 {
		t.Error(c, diags)
	}
	if c, diags = ParseCage("policy.yaml", nil); c != nil || len(diags) != 1 {
		t.Error(c, diags)
	}
}

// A cage is equal after encoding and decoding.
func TestCageProto(t *testing.T) {
	back := func(c Cage) bool {
		c.Limits.Walltime = time.Duration(int32(c.Limits.Walltime)) * time.Millisecond
		for _, empty := range []*[]string{&c.Net, &c.Capabilities} {
			if len(*empty) == 0 {
				*empty = nil
			}
		}
		if len(c.FS) == 0 {
			c.FS = nil
		}
		if len(c.ReadOnly) == 0 {
			c.ReadOnly = nil
		}
		if len(c.Env) == 0 {
			c.Env = nil
		}
		got := CageFromProto(c.Proto())
		if len(got.Env) == 0 {
			got.Env = nil
		}
		for _, empty := range []*[]string{&got.Net, &got.Capabilities} {
			if len(*empty) == 0 {
				*empty = nil
			}
		}
		return reflect.DeepEqual(&c, got)
	}
	if err := quick.Check(back, nil); err != nil {
		t.Error(err)
	}
	const at = "\xff.yaml:1:1" // a file's name may hold any bytes, a message's text only UTF-8
	foreign := Cage{FS: []Mount{{"ro", "project:/", at}}, ReadOnly: []Place{{"/x", at}}}
	for _, at := range []string{foreign.Proto().GetFs()[0].GetAt(), foreign.Proto().GetReadOnlyAt()[0]} {
		if at != "\uFFFD.yaml:1:1" {
			t.Errorf("%q", at)
		}
	}
	if CageFromProto((*Cage)(nil).Proto()) != nil {
		t.Error("no cage became one")
	}
}

// Parse returns a project or errors for any bytes of the two files, and the same result each time.
func FuzzParse(f *testing.F) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(data), "-- "+ProjectFile+" --\n")
		main, _, _ := strings.Cut(rest, "\n-- ")
		f.Add([]byte(main), []byte("primary: {max_steps: null}\n"))
	}
	f.Add([]byte("a: !!str\n? [b]\n: &c *c\n"), []byte("- "))
	f.Add([]byte("<<: [a, {b: c}]\n\"\": 'x'\n"), []byte("%YAML 1.2\n---\n"))
	f.Fuzz(func(t *testing.T, main, overlay []byte) {
		file := func(path string) File {
			switch path {
			case ProjectFile:
				return File{Path: path, Present: true, Content: main}
			case OverlayFile:
				return File{Path: path, Present: len(overlay) > 0, Content: overlay}
			}
			return File{Path: path, Present: strings.HasSuffix(path, ".md")}
		}
		r := parse(t, file)
		if (r.Project == nil) != r.Failed() {
			t.Fatal("a project comes with errors, or none without")
		}
		for _, d := range r.Diagnostics {
			if d.Message == "" || d.Pos.File == "" || d.Pos.Line < 0 {
				t.Fatalf("diagnostic without content: %+v", d)
			}
		}
		if d := cmp.Diff(r.Diagnostics, parse(t, file).Diagnostics); d != "" {
			t.Fatal("a second reading differs:\n" + d)
		}
		ParseCage("cage.yaml", main)
	})
}
