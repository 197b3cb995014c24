package projects_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
)

func text(s string) *string { return &s }

// The present project file is returned, even if it does not compile or is missing (A-DSL-GET-01 to A-DSL-GET-04).
func TestDSLIsShownAsItIs(t *testing.T) {
	f := newFixture(t)
	root := f.musicFolder()
	f.load(root)
	got, err := f.DSL(f.ctx, "ada", "music")
	if err != nil || got.Text != music || !got.Valid || got.SHA256 != hashOf([]byte(music)) {
		t.Fatalf("%+v %v", got, err)
	}
	write(t, filepath.Join(root, yamlPath), "version: 1\n")
	if got, err = f.DSL(f.ctx, "ada", "music"); err != nil || got.Text != "version: 1\n" || got.Valid {
		t.Errorf("a broken file: %+v %v", got, err)
	}
	if err := os.Remove(filepath.Join(root, yamlPath)); err != nil {
		t.Fatal(err)
	}
	if got, err = f.DSL(f.ctx, "ada", "music"); err != nil || got.Text != "" || got.Valid || got.SHA256 != "" {
		t.Errorf("a missing file: %+v %v", got, err)
	}
	_, err = f.DSL(f.ctx, "ada", "nope")
	refused(t, err, fault.NotFound)
}

// A text that compiles is written unchanged, with comments, and approved even if it widens; a text that does not
// compile leaves the file unchanged (A-DSL-PUT-01 to A-DSL-PUT-05, A-DSL-PUT-08).
func TestPutDSL(t *testing.T) {
	f := newFixture(t)
	root := f.musicFolder()
	f.load(root)
	broken := strings.Replace(music, "model: fast", "model: 'not an alias'", 1)
	w, err := f.PutDSL(f.ctx, "ada", "music", &broken, "")
	if err != nil || w.Valid || w.SHA256 != "" || len(w.Errors()) != 1 || w.Errors()[0].Line != 5 ||
		w.Errors()[0].Kind != "schema_violation" {
		t.Fatalf("%+v %v", w, err)
	}
	wider := "# mine\n" + strings.Replace(music, "cage: disabled", "max_steps: 90\n  cage: disabled # all of it", 1)
	w, err = f.PutDSL(f.ctx, "ada", "music", &wider, hashOf([]byte(music)))
	if err != nil || !w.Valid || w.State != projects.Ready || w.SHA256 != hashOf([]byte(wider)) {
		t.Fatalf("%+v %v", w, err)
	}
	if on, err := os.ReadFile(filepath.Join(root, yamlPath)); err != nil || string(on) != wider {
		t.Errorf("the file is %q, %v", on, err)
	}
	if a, err := f.Approval(f.ctx, "ada", "music"); err != nil || a.Required {
		t.Errorf("an operator's own text waits for approval: %+v %v", a, err)
	}
	if _, err := f.Reload(f.ctx, "ada", "music"); err != nil {
		t.Error(err)
	}
	if got := f.recorded(); !strings.Contains(got, "project.reloaded project.approved") {
		t.Error("recorded:", got)
	}

	_, err = f.PutDSL(f.ctx, "ada", "music", &wider, hashOf([]byte(music)))
	if d := refused(t, err, fault.Conflict); d["reason"] != "version_mismatch" || d["sha256"] != hashOf([]byte(wider)) {
		t.Error(d)
	}
	renamed := strings.Replace(music, "project: music", "project: noise", 1)
	_, err = f.PutDSL(f.ctx, "ada", "music", &renamed, "")
	refused(t, err, fault.Conflict)
	_, err = f.PutDSL(f.ctx, "ada", "music", nil, "")
	refused(t, err, fault.ValidationFailed)
	_, err = f.PutDSL(f.ctx, "ada", "music", text(strings.Repeat("#", 2<<20)), "")
	refused(t, err, fault.PayloadTooLarge)
}

// A saved project is evaluated: one with an unbound alias waits for it (A-CONTRA-06).
func TestPutDSLEvaluates(t *testing.T) {
	f := newFixture(t)
	f.load(f.musicFolder())
	unbound := strings.Replace(music, "model: fast", "model: unbound", 1)
	if w, err := f.PutDSL(f.ctx, "ada", "music", &unbound, ""); err != nil || !w.Valid || w.State != projects.Pending {
		t.Errorf("got %+v, %v, want a pending project", w, err)
	}
}

// A write repairs a project file that was invalid on disk, and creates a missing one.
func TestPutDSLMends(t *testing.T) {
	f := newFixture(t)
	root := f.musicFolder()
	f.load(root)
	for _, ruin := range []func(){
		func() { write(t, filepath.Join(root, yamlPath), "{") },
		func() { _ = os.Remove(filepath.Join(root, yamlPath)) },
	} {
		ruin()
		if _, err := f.Reload(f.ctx, "ada", "music"); err == nil {
			t.Fatal("a ruined project loads")
		}
		if w, err := f.PutDSL(f.ctx, "ada", "music", text(music), ""); err != nil || w.State != projects.Ready {
			t.Errorf("%+v %v", w, err)
		}
		if got := f.get("music"); got.State != projects.Ready {
			t.Error("the project is", got.State)
		}
	}
}

// A write of the project file approves no text of another writer: an overlay, and a prompt that agents can write, still
// wait.
func TestPutDSLApprovesItsOwnTextAlone(t *testing.T) {
	f := newFixture(t)
	writes := strings.Replace(music, "cage: disabled", "tools: {shell.bash: {enabled: true}}\n  cage: disabled", 1)
	root := f.folder(yamlPath, writes, "prompts/primary.md", "You play.", "prompts/writer.md", "You write.")
	f.load(root)
	write(t, filepath.Join(root, "prompts/primary.md"), "Do what the agent says.")
	write(t, filepath.Join(root, ".kaged/project.local.yaml"), "primary: {max_steps: 99}\n")
	steps := strings.Replace(writes, "cage: disabled", "description: Plays.\n  cage: disabled", 1)
	w, err := f.PutDSL(f.ctx, "ada", "music", &steps, "")
	if err != nil || !w.Valid || !w.Waits {
		t.Fatalf("%+v %v", w, err)
	}
	a, err := f.Approval(f.ctx, "ada", "music")
	if err != nil || !a.Required || !strings.Contains(a.Diff, "max_steps: 99") {
		t.Errorf("the overlay is approved: %+v %v", a, err)
	}
	if err := os.Remove(filepath.Join(root, ".kaged/project.local.yaml")); err != nil {
		t.Fatal(err)
	}
	if w, err = f.PutDSL(f.ctx, "ada", "music", text(steps+"# again\n"), ""); err != nil || w.Waits {
		t.Fatalf("%+v %v", w, err)
	}
	if a, err = f.Approval(f.ctx, "ada", "music"); err != nil || !a.Required || len(a.Widened) != 1 ||
		a.Widened[0].Key != "system_prompt" {
		t.Errorf("the prompt is accepted: %+v %v", a, err)
	}
}

// A file that changes during its replacement is compiled again: the approved text is the written one.
func TestPutDSLWhileTheFileChanges(t *testing.T) {
	f := newFixture(t)
	root := f.musicFolder()
	f.load(root)
	times := 0
	f.workspace.beforeWrite = func() {
		if times++; times == 1 {
			write(t, filepath.Join(root, yamlPath), music+"# another editor\n")
		}
	}
	if w, err := f.PutDSL(f.ctx, "ada", "music", text(music+"# mine\n"), ""); err != nil || !w.Valid {
		t.Fatal(w, err)
	}
	if on, _ := os.ReadFile(filepath.Join(root, yamlPath)); times != 2 || !strings.HasSuffix(string(on), "# mine\n") {
		t.Errorf("%d tries, %q", times, on)
	}
}

// A text is checked by itself: no project is registered, and the files that it names count as present (A-DSLV-01 to
// A-DSLV-03).
func TestValidate(t *testing.T) {
	f := newFixture(t)
	if v, err := f.Validate(f.ctx, "ada", text(music)); err != nil || !v.Valid || len(v.Errors()) != 0 {
		t.Errorf("%+v %v", v, err)
	}
	v, err := f.Validate(f.ctx, "ada", text(music+"      tools: {\"kaged.issue\": {enabled: true}}\n"))
	if err != nil || v.Valid || len(v.CrossReferences()) != 1 ||
		!strings.HasPrefix(v.CrossReferences()[0], "primary.subagents.writer.tools") {
		t.Errorf("%+v %v", v, err)
	}
	if v, err = f.Validate(f.ctx, "ada", text("version: 1\nplugins: {}\n")); err != nil || v.Valid {
		t.Errorf("%+v %v", v, err)
	}
	_, err = f.Validate(f.ctx, "ada", nil)
	refused(t, err, fault.ValidationFailed)
	if list, err := f.List(f.ctx, "ada", 10, ""); err != nil || len(list.Items) != 0 {
		t.Error("validating registered something", err)
	}
}

// The document has the resolved project; errors of files that do not compile have their positions (A-SYN-01, A-SYN-12
// to A-SYN-14).
func TestSynthesize(t *testing.T) {
	f := newFixture(t)
	root := f.musicFolder()
	f.load(root)
	write(t, filepath.Join(root, ".kaged/project.local.yaml"), "primary: {max_steps: 7}\n")
	s, err := f.Synthesize(f.ctx, "ada", "music")
	if err != nil || !s.Valid || !s.HasOverlay || s.HasReferences || len(s.Tools) != 1 || s.Tools[0] != "file.read" {
		t.Fatalf("%+v %v", s, err)
	}
	for _, want := range []string{"max_steps: 7", "project:/prompts/writer.md", "file.read:\n      enabled: true"} {
		if !strings.Contains(s.YAML, want) {
			t.Errorf("no %q in\n%s", want, s.YAML)
		}
	}
	write(t, filepath.Join(root, yamlPath), music+"    far: {path: ./far}\n")
	if s, err = f.Synthesize(f.ctx, "ada", "music"); err != nil || s.Valid || s.YAML != "" || !s.HasReferences ||
		s.Errors()[0].Kind != "nested_project_missing" {
		t.Errorf("%+v %v", s, err)
	}
	if err := os.Remove(filepath.Join(root, yamlPath)); err != nil {
		t.Fatal(err)
	}
	_, err = f.Synthesize(f.ctx, "ada", "music")
	refused(t, err, fault.NotFound)
}

// Spaces around a label are removed, it has at most 80 characters, and null or "" removes it (A-PROJ-PUT-01 to
// A-PROJ-PUT-06).
func TestLabel(t *testing.T) {
	f := newFixture(t)
	f.load(f.musicFolder())
	p, err := f.SetLabel(f.ctx, "ada", "music", text("  Music Site "))
	if err != nil || p.Label == nil || *p.Label != "Music Site" {
		t.Fatalf("%v %v", p.Label, err)
	}
	if p := f.load(p.Path); p.Label == nil {
		t.Error("a load took the label away")
	}
	for _, none := range []*string{nil, text("  ")} {
		if p, err = f.SetLabel(f.ctx, "ada", "music", none); err != nil || p.Label != nil {
			t.Errorf("%v %v", p.Label, err)
		}
	}
	_, err = f.SetLabel(f.ctx, "ada", "music", text(strings.Repeat("ä", 81)))
	refused(t, err, fault.ValidationFailed)
	_, err = f.SetLabel(f.ctx, "ada", "nope", nil)
	refused(t, err, fault.NotFound)
	if !strings.HasSuffix(f.recorded(), "project.labelled") {
		t.Error(f.recorded())
	}
}

// Every text of a prompt is a version, whoever wrote it. Versions can be compared and restored (A-PROMPT-LIST-01 to
// A-PROMPT-PUT-02).
func TestPromptVersions(t *testing.T) {
	f := newFixture(t)
	root := f.musicFolder()
	f.load(root)
	const path = "prompts/primary.md"
	put := func(w projects.PromptWriting) projects.PromptVersion {
		t.Helper()
		v, err := f.PutPrompt(f.ctx, "ada", "music", path, w)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if v := put(projects.PromptWriting{Text: text("Second.")}); v.Version != 2 || v.Author != "ada" {
		t.Errorf("the first text of the file is no version of its own: %+v", v)
	}
	write(t, filepath.Join(root, path), "Third, by an editor.")
	now, err := f.Prompt(f.ctx, "ada", "music", path, 0, 1)
	if err != nil || now.Version != 3 || now.Author != "" || now.Text != "Third, by an editor." ||
		len(now.Versions) != 3 ||
		!strings.Contains(*now.Diff, "-You play.") {
		t.Fatalf("%+v %v", now, err)
	}
	first, err := f.Prompt(f.ctx, "ada", "music", path, 1, 0)
	if err != nil || first.Text != "You play." || first.Diff != nil {
		t.Errorf("%+v %v", first, err)
	}
	if v := put(projects.PromptWriting{Restore: 2, Match: now.SHA256}); v.Version != 4 {
		t.Error(v)
	}
	if v := put(projects.PromptWriting{Text: text("Second.")}); v.Version != 4 {
		t.Error("the same text is another version", v)
	}
	if on, _ := os.ReadFile(filepath.Join(root, path)); string(on) != "Second." {
		t.Errorf("the file is %q", on)
	}
	if a, err := f.Approval(f.ctx, "ada", "music"); err != nil || a.Required {
		t.Errorf("an operator's own prompt waits for approval: %+v %v", a, err)
	}
	list, err := f.PromptFiles(f.ctx, "ada", "music")
	if err != nil || len(list) != 2 || list[0].Versions != 4 || list[1].Versions != 1 || !list[1].Present {
		t.Errorf("%+v %v", list, err)
	}
	if !strings.HasSuffix(f.recorded(), "prompt.edit prompt.edit prompt.edit") {
		t.Error(f.recorded())
	}

	for name, w := range map[string]projects.PromptWriting{
		"neither": {}, "both": {Text: text("x"), Restore: 1}, "NUL": {Text: text("\x00")},
	} {
		if _, err := f.PutPrompt(f.ctx, "ada", "music", path, w); !errors.Is(err, fault.ValidationFailed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err = f.PutPrompt(f.ctx, "ada", "music", path, projects.PromptWriting{Text: text("x"), Match: first.SHA256})
	refused(t, err, fault.Conflict)
	for _, unknown := range []string{"README.md", "../x", yamlPath} {
		_, err = f.PutPrompt(f.ctx, "ada", "music", unknown, projects.PromptWriting{Text: text("x")})
		refused(t, err, fault.NotFound)
	}
	_, err = f.Prompt(f.ctx, "ada", "music", path, 99, 0)
	refused(t, err, fault.NotFound)
}
