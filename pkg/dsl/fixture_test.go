package dsl

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

var update = flag.Bool("update", false, "rewrite what the fixtures expect")

// fixture is a txtar file: its purpose, the files of a project, and the expected result.
//
// A wanted prompt exists unless a line of "absent" names it; "refused" gives lines of "path: reason". The section
// "diagnostics" holds the expected diagnostics, "project" the expected project as JSON. A comment line "schema:
// accepts" marks a rule that JSON Schema cannot express.
type fixture struct {
	comment  string
	sections []section
}

type section struct{ name, data string }

func readFixture(t *testing.T, path string) *fixture {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{}
	into := &f.comment
	for line := range strings.Lines(string(data)) {
		name, isHeader := strings.CutPrefix(strings.TrimRight(line, "\n"), "-- ")
		if isHeader && strings.HasSuffix(name, " --") {
			f.sections = append(f.sections, section{name: strings.TrimSuffix(name, " --")})
			into = &f.sections[len(f.sections)-1].data
			continue
		}
		*into += line
	}
	return f
}

func (f *fixture) get(name string) string {
	for _, s := range f.sections {
		if s.name == name {
			return s.data
		}
	}
	return ""
}

func (f *fixture) set(name, data string) {
	f.sections = slices.DeleteFunc(f.sections, func(s section) bool { return s.name == name })
	if data != "" {
		f.sections = append(f.sections, section{name, data})
	}
}

func (f *fixture) write(t *testing.T, path string) {
	t.Helper()
	var b bytes.Buffer
	b.WriteString(f.comment)
	for _, s := range f.sections {
		b.WriteString("-- " + s.name + " --\n" + s.data)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// file returns a wanted file.
func (f *fixture) file(path string) File {
	for _, line := range strings.Split(f.get("refused"), "\n") {
		if name, reason, ok := strings.Cut(line, ": "); ok && name == path {
			return File{Path: path, Reason: reason}
		}
	}
	for _, s := range f.sections {
		if s.name == path {
			return File{Path: path, Present: true, Content: []byte(strings.ReplaceAll(s.data, "\\x00", "\x00"))}
		}
	}
	absent := slices.Contains(strings.Fields(f.get("absent")), path)
	return File{Path: path, Present: !absent && !strings.HasSuffix(path, ".yaml")}
}

// parse calls Parse until it wants no more files.
func parse(t *testing.T, file func(string) File) Result {
	t.Helper()
	var files []File
	for range 2 * MaxAgents {
		r := Parse(files)
		if len(r.Wanted) == 0 {
			return r
		}
		for _, p := range r.Wanted {
			files = append(files, file(p))
		}
	}
	t.Fatal("Parse wants files without end")
	return Result{}
}

// A project file gives exactly the project, or exactly the diagnostics with positions, of its fixture, and the JSON
// Schema agrees with the parser (H-SCOPE-05, H-OPEN-02).
func TestFixtures(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatal("no fixtures", err)
	}
	schema := compiledSchema(t)
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			f := readFixture(t, path)
			r := parse(t, f.file)
			diagnostics, project := render(t, r)
			if *update {
				f.set("diagnostics", diagnostics)
				f.set("project", project)
				f.write(t, path)
			}
			if d := cmp.Diff(f.get("diagnostics"), diagnostics); d != "" {
				t.Error("diagnostics:\n" + d)
			}
			if d := cmp.Diff(f.get("project"), project); d != "" {
				t.Error("project:\n" + d)
			}
			checkSchema(t, schema, f, r)
		})
	}
}

func render(t *testing.T, r Result) (diagnostics, project string) {
	t.Helper()
	for _, d := range r.Diagnostics {
		word := ""
		if d.Severity == Warning {
			word = "warning: "
		}
		diagnostics += word + d.String() + "\n"
	}
	if (r.Project == nil) != r.Failed() {
		t.Error("a project comes with errors, or none without")
	}
	if r.Project != nil {
		data, err := json.MarshalIndent(r.Project, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		project = string(data) + "\n"
	}
	return diagnostics, project
}

func compiledSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := Schema(Version)
	if err != nil {
		t.Fatal(err)
	}
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(ProjectFile, schema); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile(ProjectFile)
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// checkSchema compares the schema's result for the merged root document with the parser's.
func checkSchema(t *testing.T, schema *jsonschema.Schema, f *fixture, r Result) {
	t.Helper()
	var diags diagnostics
	doc := parseYAML(ProjectFile, f.file(ProjectFile).Content, &diags, nil)
	if over := f.file(OverlayFile); doc != nil && over.Present {
		if o := parseYAML(OverlayFile, over.Content, &diags, &node{kind: mapNode}); o != nil {
			doc = merge(doc, o)
		}
	}
	if doc == nil || diags.failed() {
		return
	}
	rejects := slices.ContainsFunc(r.Diagnostics, func(d Diagnostic) bool { return d.Severity == Error })
	if strings.Contains(f.comment, "schema: accepts") {
		rejects = false
	}
	if err := schema.Validate(doc.value()); (err != nil) != rejects {
		t.Errorf("the parser refuses: %t; the schema says: %v", rejects, err)
	}
}

// The published schema equals the schema of the shapes.
func TestPublishedSchemaIsCurrent(t *testing.T) {
	want, err := Schema(Version)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../docs/reference/project.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want)+"\n" {
		t.Error("docs/reference/project.schema.json is stale: run go generate ./dsl")
	}
	if _, err := Schema(2); err == nil {
		t.Error("there is a schema of version 2")
	}
}
