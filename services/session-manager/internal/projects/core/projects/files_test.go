package projects_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"kaged.dev/pkg/fault"
)

// A folder is listed in pages of names, and a text file is returned as text. Missing files and files outside the
// project have the API's codes.
func TestFiles(t *testing.T) {
	f := newFixture(t)
	root := f.musicFolder()
	f.load(root)
	write(t, filepath.Join(root, "b.bin"), "\x00\xff")
	write(t, filepath.Join(root, "large.txt"), strings.Repeat("x", 2<<20))
	page, err := f.Files(f.ctx, "ada", "music", "prompts", 1, "")
	if err != nil || len(page.Items) != 1 || page.Items[0].Path != "prompts/primary.md" || !page.HasMore() {
		t.Fatalf("%+v %v", page, err)
	}
	page, err = f.Files(f.ctx, "ada", "music", "prompts", 1, page.Next)
	if err != nil || len(page.Items) != 1 || page.Items[0].Name != "writer.md" || page.HasMore() {
		t.Fatalf("the second page: %+v %v", page, err)
	}
	for name, want := range map[string]string{
		"prompts/primary.md": "You play. false true", "b.bin": "<nil> true true", "large.txt": "<nil> false false",
	} {
		got, err := f.File(f.ctx, "ada", "music", name)
		text := "<nil>"
		if got.Text != nil {
			text = *got.Text
		}
		if shown := fmt.Sprint(text, " ", got.Binary, " ", got.SHA256 != ""); err != nil || shown != want ||
			got.Path != name {
			t.Errorf("%s: got %q, want %q; %v", name, shown, want, err)
		}
	}
	_, err = f.File(f.ctx, "ada", "music", "nope")
	refused(t, err, fault.NotFound)
	_, err = f.File(f.ctx, "ada", "music", "../x")
	refused(t, err, fault.ValidationFailed)
	_, err = f.File(f.ctx, "eve", "music", "b.bin")
	refused(t, err, fault.NotFound)
	_, err = f.Files(f.ctx, "ada", "music", "nope", 0, "")
	refused(t, err, fault.NotFound)
}

// Each agent has every tool of the catalogue with the reason of its state, and its cage and binding.
func TestAgents(t *testing.T) {
	f := newFixture(t)
	root := f.musicFolder()
	f.load(root)
	agents, err := f.Agents(f.ctx, "ada", "music")
	if err != nil || len(agents.List) != 2 {
		t.Fatalf("%+v %v", agents, err)
	}
	player, writer := agents.List[0], agents.List[1]
	var why []string
	for _, d := range player.Decisions {
		why = append(why, fmt.Sprint(d.Tool, " ", d.Enabled, " ", d.Why(agents.Catalogue.Find(d.Tool).DefaultRoot)))
	}
	want := "file.read true default of a root agent|" +
		"file.write false not given: tools: {file.write: {enabled: true}}|" +
		"shell.bash false not given: tools: {shell.bash: {enabled: true}}"
	if got := strings.Join(why, "|"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := fmt.Sprint(player.Agent.Cage.Sentences()); !strings.Contains(got, "No cage") {
		t.Error("the root agent:", got)
	}
	if got := fmt.Sprint(writer.Agent.Cage.Sentences()); !strings.Contains(got, "Reads and writes ./src;") ||
		!strings.Contains(got, "Reaches no network.") {
		t.Error("the caged agent:", got)
	}
	_, err = f.Agents(f.ctx, "eve", "music")
	refused(t, err, fault.NotFound)
}
