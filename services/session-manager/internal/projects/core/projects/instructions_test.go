package projects_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
)

// instructed gives the root agent the project's instructions.
var instructed = strings.ReplaceAll(music, "  cage: disabled\n  sub",
	"  cage: disabled\n  instructions: {agents_md: true}\n  sub")

// The accepted instructions of a project stay in effect when the files change, are removed or appear: runs continue and
// report this, no reload is refused, and an approval accepts the present files.
func TestInstructionsAreHeld(t *testing.T) {
	f := newFixture(t)
	dir := f.folder(yamlPath, instructed, "prompts/primary.md", "You play.", "prompts/writer.md", "You write.",
		"AGENTS.md", "Run tests.")
	f.load(dir)
	pin := f.pin()
	file := filepath.Join(dir, "AGENTS.md")
	remove := func() {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	sha := func(text string) string {
		if text == "" {
			return ""
		}
		return hashOf([]byte(text))
	}
	check := func(when, text, found string) {
		t.Helper()
		in := f.prepare(pin)
		var held []projects.HeldPrompt
		if found != text {
			held = []projects.HeldPrompt{{Path: dsl.InstructionsPath, Accepted: sha(text), Found: sha(found)}}
		}
		if d := cmp.Diff(held, in.HeldPrompts); d != "" ||
			in.Prompts[dsl.InstructionsPath] != text || in.ChangedPrompts != nil {
			t.Errorf("%s: %v, held %s, changed %v", when, in.Prompts, d, in.ChangedPrompts)
		}
		if p := f.get("music"); p.State != projects.Ready {
			t.Errorf("%s: the project is %s", when, p.State)
		}
	}
	check("loaded", "Run tests.", "Run tests.")
	accepted := "Run tests."
	for _, step := range []struct {
		name, text string
		diff       []string
	}{
		{"changed", "Obey.", []string{"-Run tests.", "+Obey."}},
		{"gone", "", []string{"-Obey."}},
		{"appeared", "Be kind.", []string{"+Be kind."}},
	} {
		if step.text == "" {
			remove()
		} else {
			write(t, file, step.text)
		}
		check(step.name, accepted, step.text)
		if _, err := f.Reload(f.ctx, "ada", "music"); err != nil {
			t.Fatalf("%s: a reload: %v", step.name, err)
		}
		f.restart("1.0")
		check(step.name+", after a reload and a restart", accepted, step.text)
		a := f.approval()
		if !a.Required || len(a.Widened) != 1 || a.Widened[0].Key != "instructions.agents_md" ||
			a.Widened[0].AgentPath != "primary" {
			t.Errorf("%s: the approval is %+v", step.name, a)
		}
		for _, line := range step.diff {
			if !strings.Contains(a.Diff, line) {
				t.Errorf("%s: the diff lacks %q: %s", step.name, line, a.Diff)
			}
		}
		if _, err := f.Approve(f.ctx, "ada", "music", a.PendingHash); err != nil {
			t.Fatal(err)
		}
		accepted = step.text
		check(step.name+", approved", accepted, accepted)
		if a := f.approval(); a.Required {
			t.Errorf("%s: approved, and still %+v", step.name, a)
		}
	}
}

// A version that adds instructions does not widen, and its agents get no text before it is accepted.
func TestInstructionsTurnedOn(t *testing.T) {
	f := newFixture(t)
	dir := f.musicFolder()
	write(t, filepath.Join(dir, "AGENTS.md"), "Obey.")
	f.load(dir)
	if in := f.prepare(f.pin()); in.Prompts[dsl.InstructionsPath] != "" || in.HeldPrompts != nil {
		t.Errorf("not asked for: %v, held %v", in.Prompts, in.HeldPrompts)
	}
	write(t, filepath.Join(dir, yamlPath), instructed)
	if p, err := f.Reload(f.ctx, "ada", "music"); err != nil || p.State != projects.Ready {
		t.Fatalf("the project is %s, %v", p.State, err)
	}
	in := f.prepare(f.pin())
	if in.Prompts[dsl.InstructionsPath] != "" || len(in.HeldPrompts) != 1 || in.HeldPrompts[0].Accepted != "" {
		t.Errorf("turned on: %v, held %v", in.Prompts, in.HeldPrompts)
	}
}

// Instructions are listed and read like prompts, but not written through kaged, because they consist of several files.
func TestInstructionsAmongPrompts(t *testing.T) {
	f := newFixture(t)
	dir := f.folder(yamlPath, instructed, "prompts/primary.md", "You play.", "prompts/writer.md", "You write.")
	f.load(dir)
	if in := f.prepare(f.pin()); in.HeldPrompts != nil {
		t.Errorf("without a file: held %v", in.HeldPrompts)
	}
	list, err := f.PromptFiles(f.ctx, "ada", "music")
	if err != nil || len(list) != 3 || list[0].Name != dsl.InstructionsPath || list[0].Present {
		t.Errorf("the prompts are %+v, %v", list, err)
	}
	_, err = f.Prompt(f.ctx, "ada", "music", "AGENTS.md", 0, 0)
	refused(t, err, fault.NotFound)
	write(t, filepath.Join(dir, "AGENTS.md"), "Run tests.")
	for _, name := range []string{"AGENTS.md", "./AGENTS.md"} {
		text, err := f.Prompt(f.ctx, "ada", "music", name, 0, 0)
		if err != nil || text.Text != "Run tests." || text.Path != dsl.InstructionsPath {
			t.Errorf("%s is %+v, %v", name, text, err)
		}
	}
	text := "Obey."
	_, err = f.PutPrompt(f.ctx, "ada", "music", "AGENTS.md", projects.PromptWriting{Text: &text})
	refused(t, err, fault.ValidationFailed)
}
