package projects_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
)

// A folder of the project gets a project file and a prompt, which an agent can refer to; files that are there stay, and
// a folder outside is refused (A-SUBI-01 to A-SUBI-03).
func TestInitSubagent(t *testing.T) {
	f := newFixture(t)
	root := f.musicFolder()
	p := f.load(root)
	want := projects.Begun{Path: filepath.Join(p.Path, "agents/Code Reviewer"), Slug: "code-reviewer", Created: true}
	if got, err := f.InitSubagent(f.ctx, "ada", "music", "./agents/Code Reviewer/"); err != nil || got != want {
		t.Fatalf("got %+v, %v, want %+v", got, err, want)
	}
	file := filepath.Join(root, "agents/Code Reviewer/.kaged/project.yaml")
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), "project: code-reviewer\n") {
		t.Fatalf("the project file is %q, %v", text, err)
	}
	prompt, err := os.ReadFile(filepath.Join(filepath.Dir(file), "prompts/default.md"))
	if err != nil || len(prompt) == 0 {
		t.Errorf("the prompt is %q, %v", prompt, err)
	}
	write(t, file, "# mine\n"+string(text))
	want.Created = false
	if got, err := f.InitSubagent(f.ctx, "ada", "music", "agents/Code Reviewer"); err != nil || got != want {
		t.Errorf("again: got %+v, %v, want %+v", got, err, want)
	}
	if again, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(again), "# mine\n") {
		t.Errorf("the file is %q, %v", again, err)
	}
	with := strings.Replace(music, "  subagents:\n",
		"  subagents:\n    reviewer:\n      path: ./agents/Code Reviewer\n", 1)
	if v, err := f.PutDSL(f.ctx, "ada", "music", &with, ""); err != nil || !v.Valid {
		t.Errorf("a project that refers to the folder: %+v, %v", v, err)
	}
	for _, bad := range []string{"", ".", "..", "../x", "a/../../x", "/etc", "a\\b", "a\x00b", "...", "agents/--"} {
		_, err := f.InitSubagent(f.ctx, "ada", "music", bad)
		refused(t, err, fault.ValidationFailed)
	}
	_, err = f.InitSubagent(f.ctx, "ada", "nope", "x")
	refused(t, err, fault.NotFound)
}
