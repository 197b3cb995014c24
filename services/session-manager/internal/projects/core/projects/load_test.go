package projects_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
)

// A resolved project is registered as ready and recorded. A-PROJ-LOAD-01, A-PROJ-LOAD-03, A-PROJ-STATE-01.
func TestLoadReady(t *testing.T) {
	f := newFixture(t)
	dir := f.musicFolder()
	p, created, err := f.Load(f.ctx, "ada", dir+"/./")
	if err != nil || !created {
		t.Fatal(created, err)
	}
	if p.ID != "music" || p.Path != dir || p.State != projects.Ready || p.Label != nil ||
		p.Description != "Makes music." || p.DSLVersion != 1 {
		t.Errorf("project = %+v", p)
	}
	if p.RegisteredAt == 0 || p.CompiledHash == "" || !p.Unresolved.Empty() {
		t.Errorf("project = %+v", p)
	}
	if got := f.recorded(); got != "project.loaded project.approved" {
		t.Errorf("recorded %q", got)
	}
}

// Missing parts are listed with the agents that use them. A-PROJ-LOAD-04, A-PROJ-STATE-02.
func TestLoadPending(t *testing.T) {
	f := newFixture(t)
	f.configure("[models]\nfast = \"play:x\"\n")
	p := f.load(f.folder(yamlPath, music, "prompts/primary.md", "You play."))
	want := projects.Unresolved{
		Aliases: []projects.Reference{{Name: "slow", UsedBy: []string{"primary.subagents.writer"}}},
		Prompts: []projects.Reference{
			{Name: "prompts/writer.md", UsedBy: []string{"primary.subagents.writer.system_prompt"}},
		},
	}
	if d := cmp.Diff(want, p.Unresolved); d != "" || p.State != projects.Pending {
		t.Error(d, p.State)
	}
}

// A project file that does not compile is refused with the position of every error, and no project is registered.
// A-PROJ-LOAD-05.
func TestLoadInvalid(t *testing.T) {
	f := newFixture(t)
	dir := f.folder(yamlPath, strings.ReplaceAll(music, "model: slow", "model: 7\n      surprise: true"))
	_, _, err := f.Load(f.ctx, "ada", dir)
	list, _ := refused(t, err, fault.DSLInvalid)["errors"].([]any)
	places := map[string]string{}
	for _, e := range list {
		e := e.(map[string]any)
		places[e["path"].(string)] = fmt.Sprint(e["line"], ":", e["column"], " ", e["reason"] != "")
	}
	if len(list) < 2 || !strings.HasPrefix(places["primary.subagents.writer.model"], "10:14 true") {
		t.Errorf("errors at %v", places)
	}
	if _, err := f.Get(f.ctx, "ada", "music"); !errors.Is(err, fault.NotFound) {
		t.Errorf("registered all the same: %v", err)
	}
	if got := f.recorded(); got != "" {
		t.Errorf("recorded %q", got)
	}
}

// A prompt that is not a text file makes the project file invalid.
func TestLoadRefusesPrompts(t *testing.T) {
	f := newFixture(t)
	dir := f.folder(yamlPath, music, "prompts/primary.md", "a\x00b")
	if err := os.MkdirAll(filepath.Join(dir, "prompts/writer.md"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, _, err := f.Load(f.ctx, "ada", dir)
	text := fmt.Sprint(refused(t, err, fault.DSLInvalid)["errors"])
	if !strings.Contains(text, "not a text file") || !strings.Contains(text, "not a regular file") {
		t.Errorf("errors = %s", text)
	}
}

// Without a project file a load fails, and the error names the folder, or that it is missing. A-PROJ-LOAD-06.
func TestLoadNothing(t *testing.T) {
	f := newFixture(t)
	for dir, missing := range map[string]any{f.folder(): nil, "/no/such/folder": "folder"} {
		_, _, err := f.Load(f.ctx, "ada", dir)
		if got := refused(t, err, fault.NotFound); got["path"] != dir || got["missing"] != missing {
			t.Errorf("details = %v, want path %s and missing %v", got, dir, missing)
		}
		if msg := fault.From(err).Msg; msg != ".kaged/project.yaml not found at the given path." {
			t.Errorf("message = %q", msg)
		}
	}
}

// An invalid path is refused with its name. A-PROJ-LOAD-08.
func TestLoadRefusesPaths(t *testing.T) {
	f := newFixture(t)
	for _, path := range []string{"", "rel", "./x", "/a\x00b", "/\xff", "/" + strings.Repeat("a", 5000)} {
		_, _, err := f.Load(f.ctx, "ada", path)
		if d := cmp.Diff([]string{"path"}, refused(t, err, fault.ValidationFailed)["fields"]); d != "" {
			t.Errorf("%.20q: %s", path, d)
		}
	}
}

// A second project with a registered id is refused with both folders. A-PROJ-LOAD-07.
func TestLoadCollision(t *testing.T) {
	f := newFixture(t)
	dir := f.musicFolder()
	f.load(dir)
	_, _, err := f.Load(f.ctx, "ada", f.musicFolder())
	want := map[string]any{"existing_path": dir, "incoming_id": "music"}
	if d := cmp.Diff(want, refused(t, err, fault.Conflict)); d != "" {
		t.Error(d)
	}
	if _, created, err := f.Load(f.ctx, "eve", f.musicFolder()); err != nil || !created {
		t.Errorf("another operator: %v %v", created, err)
	}
}

// A repeated load of a folder, by any name, is the same registration. A-PROJ-LOAD-09.
func TestLoadAgain(t *testing.T) {
	f := newFixture(t)
	dir := f.musicFolder()
	first := f.load(dir)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	again, created, err := f.Load(f.ctx, "ada", link)
	if err != nil || created || again.RegisteredAt != first.RegisteredAt || again.Path != dir {
		t.Errorf("again = %+v, created %v, %v", again, created, err)
	}
	if got := f.recorded(); got != "project.loaded project.approved project.reloaded" {
		t.Errorf("recorded %q", got)
	}
}

// Many simultaneous loads of one folder register it once.
func TestLoadAtOnce(t *testing.T) {
	f := newFixture(t)
	dir := f.musicFolder()
	var wg sync.WaitGroup
	var mu sync.Mutex
	created := 0
	for range 6 {
		wg.Go(func() {
			_, isNew, err := f.Load(f.ctx, "ada", dir)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if isNew {
				created++
			}
		})
	}
	wg.Wait()
	if created != 1 {
		t.Errorf("created %d times", created)
	}
}

// A reload reflects the files: missing, invalid and repaired parts. A-PROJ-RELOAD-01, A-PROJ-STATE-03.
func TestReload(t *testing.T) {
	f := newFixture(t)
	dir := f.musicFolder()
	first := f.load(dir)
	write(t, filepath.Join(dir, yamlPath), strings.ReplaceAll(music, "model: slow", "model: newer"))
	if f.get("music").CompiledHash != first.CompiledHash {
		t.Error("an edit counted before the operator reloaded")
	}
	p, err := f.Reload(f.ctx, "ada", "music")
	if err != nil || p.State != projects.Pending || p.Unresolved.Aliases[0].Name != "newer" ||
		p.CompiledHash == first.CompiledHash {
		t.Fatalf("reloaded %+v, %v", p, err)
	}
	write(t, filepath.Join(dir, yamlPath), "version: [")
	_, err = f.Reload(f.ctx, "ada", "music")
	refused(t, err, fault.DSLInvalid)
	if d := f.get("music"); d.State != projects.Invalid || d.CompiledHash != p.CompiledHash {
		t.Errorf("after breaking it: %+v", d.Project)
	}
	write(t, filepath.Join(dir, yamlPath), music)
	if d := f.get("music"); d.State != projects.Invalid {
		t.Errorf("mended without a reload: %s", d.State)
	}
	if p, err := f.Reload(f.ctx, "ada", "music"); err != nil || p.State != projects.Ready ||
		p.CompiledHash != first.CompiledHash || p.RegisteredAt != first.RegisteredAt {
		t.Errorf("mended: %+v, %v", p, err)
	}
	if got := f.recorded(); got != "project.loaded project.approved project.reloaded project.reloaded project.reloaded" {
		t.Errorf("recorded %q", got)
	}
}

// Loading a registered folder with an invalid file marks the registration as invalid, like a reload.
func TestLoadBrokenAgain(t *testing.T) {
	f := newFixture(t)
	dir := f.musicFolder()
	f.load(dir)
	write(t, filepath.Join(dir, yamlPath), "version: 2")
	_, _, err := f.Load(f.ctx, "ada", dir)
	refused(t, err, fault.DSLInvalid)
	if d := f.get("music"); d.State != projects.Invalid || len(d.Diagnostics) == 0 {
		t.Errorf("project = %+v", d.Project)
	}
}

// A reload is refused for an unregistered project, for a missing file, and for a file with another id; the registration
// stays. A-PROJ-RELOAD-02.
func TestReloadRefuses(t *testing.T) {
	f := newFixture(t)
	dir := f.musicFolder()
	f.load(dir)
	for _, id := range []string{"nope", "", "a\x00b", strings.Repeat("x", 300)} {
		_, err := f.Reload(f.ctx, "ada", id)
		refused(t, err, fault.NotFound)
	}
	_, err := f.Reload(f.ctx, "eve", "music")
	refused(t, err, fault.NotFound)
	write(t, filepath.Join(dir, yamlPath), strings.ReplaceAll(music, "project: music", "project: noise"))
	_, err = f.Reload(f.ctx, "ada", "music")
	want := map[string]any{"existing_id": "music", "incoming_id": "noise", "path": dir}
	if d := cmp.Diff(want, refused(t, err, fault.Conflict)); d != "" {
		t.Error(d)
	}
	_, _, err = f.Load(f.ctx, "ada", dir)
	if d := cmp.Diff(want, refused(t, err, fault.Conflict)); d != "" {
		t.Error(d)
	}
	if err := os.RemoveAll(filepath.Join(dir, ".kaged")); err != nil {
		t.Fatal(err)
	}
	_, err = f.Reload(f.ctx, "ada", "music")
	if got := refused(t, err, fault.NotFound)["path"]; got != dir {
		t.Errorf("details.path = %v", got)
	}
	if f.get("music").State != projects.Invalid {
		t.Error("a project without a file is not invalid")
	}
}

// Problems outside a project leave it unchanged: an unreachable workspace, an invalid local.toml.
func TestLoadWhenThingsAreAway(t *testing.T) {
	f := newFixture(t)
	dir := f.musicFolder()
	f.load(dir)
	away := fault.New(fault.Unavailable, "Away.")
	f.workspace.fail(away)
	_, err := f.Reload(f.ctx, "ada", "music")
	refused(t, err, fault.Unavailable)
	f.workspace.fail(nil)
	f.workspace.loseTools(away)
	_, _, err = f.Load(f.ctx, "ada", dir)
	refused(t, err, fault.Unavailable)
	f.workspace.loseTools(nil)
	f.configure("[modles]")
	_, _, err = f.Load(f.ctx, "ada", dir)
	refused(t, err, fault.LocalConfigInvalid)
	_, err = f.Reload(f.ctx, "ada", "music")
	refused(t, err, fault.LocalConfigInvalid)
	f.configure(bound)
	if f.get("music").State != projects.Ready {
		t.Error("the project changed")
	}
}

// A project with too many files is refused with a sentence.
func TestLoadTooManyFiles(t *testing.T) {
	f := newFixture(t)
	var b strings.Builder
	b.WriteString("version: 1\nproject: big\ndescription: d\nprimary:\n  model: fast\n  system_prompt: ./p.md\n  cage: " +
		"disabled\n  subagents:\n")
	for i := range 1100 {
		fmt.Fprintf(&b, "    a%d: {model: fast, system_prompt: ./p%d.md, description: d, cage: disabled}\n", i, i)
	}
	_, _, err := f.Load(f.ctx, "ada", f.folder(yamlPath, b.String()))
	refused(t, err, fault.DSLInvalid)
}
