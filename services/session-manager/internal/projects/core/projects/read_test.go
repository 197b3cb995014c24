package projects_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/fault"
)

// A project has the targets of its aliases, the first of each. A-PROJ-GET-01.
func TestGet(t *testing.T) {
	f := newFixture(t)
	p := f.load(f.musicFolder())
	d := f.get("music")
	if diff := cmp.Diff(map[string]string{"fast": "play:x", "slow": "play:y"}, d.ResolvedAliases); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(p, d.Project); diff != "" {
		t.Error(diff)
	}
	for _, c := range [][2]string{{"ada", "nope"}, {"eve", "music"}, {"ada", "m\x00"}} {
		_, err := f.Get(f.ctx, c[0], c[1])
		refused(t, err, fault.NotFound)
	}
}

// The state follows bindings and prompts without a reload, in both directions, and is stored. A-PROJ-STATE-02.
func TestStateFollowsTheWorld(t *testing.T) {
	f := newFixture(t)
	dir := f.musicFolder()
	f.load(dir)
	state := func() string {
		d := f.get("music")
		missing := ""
		for _, r := range append(d.Unresolved.Aliases, d.Unresolved.Prompts...) {
			missing += " " + r.Name
		}
		return string(d.State) + missing
	}
	expect := func(want string) {
		t.Helper()
		if got := state(); got != want {
			t.Errorf("state = %q, want %q", got, want)
		}
	}
	expect("ready")
	f.configure("[models]\nfast = \"play:x\"\n")
	expect("pending slow")
	f.configure(bound)
	expect("ready")
	if err := os.Remove(filepath.Join(dir, "prompts/writer.md")); err != nil {
		t.Fatal(err)
	}
	expect("pending prompts/writer.md")
	write(t, filepath.Join(dir, "prompts/writer.md"), "bin\x00ary")
	expect("pending prompts/writer.md")
	f.workspace.fail(fault.New(fault.Unavailable, "Away."))
	expect("pending prompts/writer.md")
	f.workspace.fail(nil)
	write(t, filepath.Join(dir, "prompts/writer.md"), "Back.")
	expect("ready")
	f.configure("[modles]")
	expect("pending fast slow")
	f.configure(bound)
	if err := os.Rename(dir, dir+".moved"); err != nil {
		t.Fatal(err)
	}
	expect("pending prompts/primary.md prompts/writer.md")
}

// Determining the state does not transfer unchanged prompts again.
func TestEvaluationTransfersNothing(t *testing.T) {
	f := newFixture(t)
	f.load(f.musicFolder())
	before := f.workspace.transferred()
	f.get("music")
	if n := f.workspace.transferred() - before; n != 0 {
		t.Errorf("%d bytes were transferred", n)
	}
}

// A list has each project with its present state, page by page, and each operator gets their own. A-PROJ-LIST-01 to 03.
func TestList(t *testing.T) {
	f := newFixture(t)
	dirs := map[string]string{}
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		dirs[id] = f.folder(yamlPath, strings.ReplaceAll(music, "project: music", "project: "+id), "prompts/primary.md", "p",
			"prompts/writer.md", "w")
		f.load(dirs[id])
	}
	if err := os.Remove(filepath.Join(dirs["b"], "prompts/writer.md")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dirs["c"], yamlPath), "version: 2")
	_, err := f.Reload(f.ctx, "ada", "c")
	refused(t, err, fault.DSLInvalid)
	var got []string
	cursor := ""
	for {
		p, err := f.List(f.ctx, "ada", 2, cursor)
		if err != nil {
			t.Fatal(err)
		}
		line := ""
		for _, item := range p.Items {
			line += " " + item.ID + ":" + string(item.State)
		}
		got = append(got, line)
		if cursor = p.Next; !p.HasMore() {
			break
		}
	}
	if d := cmp.Diff([]string{" a:ready b:pending", " c:invalid d:ready", " e:ready"}, got); d != "" {
		t.Error(d)
	}
	if p, err := f.List(f.ctx, "eve", 0, ""); err != nil || len(p.Items) != 0 || p.HasMore() {
		t.Errorf("another operator: %+v, %v", p, err)
	}
	_, err = f.List(f.ctx, "ada", -1, "")
	refused(t, err, fault.ValidationFailed)
	_, err = f.List(f.ctx, "ada", 0, "garbage")
	refused(t, err, fault.ValidationFailed)
}

// A new session pins the snapshot of a ready project, even in a process that has not used it before. A-PROJ-STATE-01.
func TestCurrent(t *testing.T) {
	f := newFixture(t)
	dir := f.musicFolder()
	p := f.load(dir)
	for range 2 {
		r, err := f.Current(f.ctx, "ada", "music")
		if err != nil || r.Snapshot.Hash != p.CompiledHash || r.Path != dir || r.Snapshot.RootModel != "fast" ||
			len(r.Snapshot.Prompts) != 2 {
			t.Errorf("runtime = %+v, %v", r, err)
		}
		f.restart("1.0")
	}
	_, err := f.Snapshot(f.ctx, "none")
	refused(t, err, fault.NotFound)
}

// Work cannot start on a project that is not ready, and the error has the next step. A-PROJ-STATE-02, H-DSL-ERR-02.
func TestCurrentNotReady(t *testing.T) {
	f := newFixture(t)
	dir := f.musicFolder()
	f.load(dir)
	expect := func(state, message string) map[string]any {
		t.Helper()
		_, err := f.Current(f.ctx, "ada", "music")
		details := refused(t, err, fault.ProjectNotReady)
		if details["reason"] != "project_not_ready" || details["state"] != state || fault.From(err).Msg != message {
			t.Errorf("err = %v, details %v", err, details)
		}
		return details
	}
	f.configure("")
	unresolved := expect("pending", "Model alias 'fast' not found in local config.")["unresolved"].(map[string]any)
	if len(unresolved["aliases"].([]any)) != 2 || len(unresolved["plugins"].([]any)) != 0 ||
		len(unresolved["prompts"].([]any)) != 0 {
		t.Errorf("unresolved = %v", unresolved)
	}
	f.configure(bound)
	if err := os.Remove(filepath.Join(dir, "prompts/primary.md")); err != nil {
		t.Fatal(err)
	}
	expect("pending", "Prompt file not found: ./prompts/primary.md.")
	write(t, filepath.Join(dir, yamlPath), "version: 2")
	_, err := f.Reload(f.ctx, "ada", "music")
	refused(t, err, fault.DSLInvalid)
	expect("invalid", "The project's file does not compile; correct it and reload the project.")
	f.configure("[modles]")
	_, err = f.Current(f.ctx, "ada", "music")
	refused(t, err, fault.LocalConfigInvalid)
	_, err = f.Current(f.ctx, "ada", "nope")
	refused(t, err, fault.NotFound)
}

// The operator's rules for tools take effect at the next session without a reload; an edit of the project file does
// not.
func TestCurrentFollowsTheRules(t *testing.T) {
	f := newFixture(t)
	dir := f.musicFolder()
	first := f.load(dir)
	write(t, filepath.Join(dir, yamlPath), strings.ReplaceAll(music, "Makes music.", "Edited by an agent."))
	f.configure(bound + "[default_tools]\n\"shell.*\" = {enabled = true}\n")
	r, err := f.Current(f.ctx, "ada", "music")
	if err != nil || r.Snapshot.Hash == first.CompiledHash || r.Description != "Makes music." ||
		r.RegisteredAt != first.RegisteredAt {
		t.Fatalf("runtime = %+v, %v", r, err)
	}
	if tools := strings.Join(r.Snapshot.Capabilities.Tools, " "); tools != "file.read shell.bash" ||
		strings.Contains(string(r.Snapshot.Compiled), "Edited") {
		t.Errorf("the snapshot's tools are %q of %q", tools, r.Snapshot.Compiled)
	}
	calls := f.workspace.listed()
	if again, err := f.Current(f.ctx, "ada", "music"); err != nil || again.Snapshot.Hash != r.Snapshot.Hash ||
		f.workspace.listed() != calls {
		t.Errorf("again = %+v, %d compilations, %v", again, f.workspace.listed()-calls, err)
	}
	if old, err := f.Snapshot(f.ctx, first.CompiledHash); err != nil || old.Hash != first.CompiledHash {
		t.Errorf("sessions lost their snapshot: %v", err)
	}
	f.restart("2.0")
	if _, err := f.Current(f.ctx, "ada", "music"); err != nil || f.workspace.listed() != calls+1 {
		t.Errorf("another version: %d compilations, %v", f.workspace.listed()-calls, err)
	}
}

// If the catalogue cannot be reached, a session that needs a new snapshot is not created, and the project is unchanged.
func TestCurrentWithoutCatalogue(t *testing.T) {
	f := newFixture(t)
	f.load(f.musicFolder())
	f.configure(bound + "[default_tools]\n\"shell.*\" = {enabled = true}\n")
	f.workspace.loseTools(fault.New(fault.Unavailable, "Away."))
	_, err := f.Current(f.ctx, "ada", "music")
	refused(t, err, fault.Unavailable)
	f.workspace.loseTools(nil)
	if _, err := f.Current(f.ctx, "ada", "music"); err != nil {
		t.Error(err)
	}
}

// The last use is recorded, but not at each call.
func TestMarkOpened(t *testing.T) {
	f := newFixture(t)
	f.load(f.musicFolder())
	f.MarkOpened(f.ctx, "ada", "music")
	first := f.get("music").LastOpenedAt
	if first == nil {
		t.Fatal("not noted")
	}
	if _, err := f.pool.Exec(t.Context(), "update projects set last_opened_at = 5"); err != nil {
		t.Fatal(err)
	}
	f.MarkOpened(f.ctx, "ada", "music")
	if at := f.get("music").LastOpenedAt; *at != 5 {
		t.Errorf("noted again at %d", *at)
	}
	f.pool.Close()
	f.MarkOpened(f.ctx, "ada", "other") // without a database it is only logged
}
