package projects_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/core/projects"
)

// A project shows what its aliases are bound to, the first target of each. A-PROJ-GET-01.
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

// The state follows bindings and prompts without a reload, there and back, and what was found is kept. A-PROJ-STATE-02.
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

// Prompts that are as they were are not transferred again to know the state.
func TestEvaluationTransfersNothing(t *testing.T) {
	f := newFixture(t)
	f.load(f.musicFolder())
	before := f.workspace.transferred()
	f.get("music")
	if n := f.workspace.transferred() - before; n != 0 {
		t.Errorf("%d bytes were transferred", n)
	}
}

// A list shows each project with its state as of now, page by page, and each operator their own. A-PROJ-LIST-01 to 03.
func TestList(t *testing.T) {
	f := newFixture(t)
	dirs := map[string]string{}
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		dirs[id] = f.folder(yamlPath, strings.ReplaceAll(music, "project: music", "project: "+id), "prompts/primary.md", "p", "prompts/writer.md", "w")
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

// A new session pins the snapshot of a ready project, also in a process that has not seen it before. A-PROJ-STATE-01.
func TestCurrent(t *testing.T) {
	f := newFixture(t)
	dir := f.musicFolder()
	p := f.load(dir)
	for range 2 {
		r, err := f.Current(f.ctx, "ada", "music")
		if err != nil || r.Snapshot.Hash != p.CompiledHash || r.Path != dir || r.Snapshot.RootModel != "fast" || len(r.Snapshot.Prompts) != 2 {
			t.Errorf("runtime = %+v, %v", r, err)
		}
		f.restart("1.0")
	}
	_, err := f.Snapshot(f.ctx, "none")
	refused(t, err, fault.NotFound)
}

// Work cannot start on a project that is not ready, and the answer says what to do. A-PROJ-STATE-02, H-DSL-ERR-02.
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
	if len(unresolved["aliases"].([]any)) != 2 || len(unresolved["plugins"].([]any)) != 0 || len(unresolved["prompts"].([]any)) != 0 {
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

// The operator's rules for tools count for the next session without a reload, an edit of the project file does not.
func TestCurrentFollowsTheRules(t *testing.T) {
	f := newFixture(t)
	dir := f.musicFolder()
	first := f.load(dir)
	write(t, filepath.Join(dir, yamlPath), strings.ReplaceAll(music, "Makes music.", "Edited by an agent."))
	f.configure(bound + "[default_tools]\n\"shell.*\" = {enabled = true}\n")
	r, err := f.Current(f.ctx, "ada", "music")
	if err != nil || r.Snapshot.Hash == first.CompiledHash || r.Description != "Makes music." || r.RegisteredAt != first.RegisteredAt {
		t.Fatalf("runtime = %+v, %v", r, err)
	}
	if text := string(r.Snapshot.Compiled); !strings.Contains(text, "shell.*") || strings.Contains(text, "Edited") {
		t.Errorf("compiled %s", text)
	}
	calls := f.compiler.calls
	if again, err := f.Current(f.ctx, "ada", "music"); err != nil || again.Snapshot.Hash != r.Snapshot.Hash || f.compiler.calls != calls {
		t.Errorf("again = %+v, %d compilations, %v", again, f.compiler.calls-calls, err)
	}
	if old, err := f.Snapshot(f.ctx, first.CompiledHash); err != nil || old.Hash != first.CompiledHash {
		t.Errorf("sessions lost their snapshot: %v", err)
	}
	f.restart("2.0")
	if _, err := f.Current(f.ctx, "ada", "music"); err != nil || f.compiler.calls != calls+1 {
		t.Errorf("another version: %d compilations, %v", f.compiler.calls-calls, err)
	}
}

// While the harness is away a session that needs a new snapshot is not created, and the project stays as it is.
func TestCurrentWithoutHarness(t *testing.T) {
	f := newFixture(t)
	f.load(f.musicFolder())
	f.configure(bound + "[default_tools]\n\"shell.*\" = {enabled = true}\n")
	f.compiler.fail(fault.New(fault.Unavailable, "Away."))
	_, err := f.Current(f.ctx, "ada", "music")
	refused(t, err, fault.Unavailable)
	f.compiler.fail(nil)
	if _, err := f.Current(f.ctx, "ada", "music"); err != nil {
		t.Error(err)
	}
}

// The last use is noted, but not again and again.
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

// Unregistering ends the sessions and forgets the project, whose files and record stay. A-PROJ-DEL-01, A-PROJ-DEL-03.
func TestUnregister(t *testing.T) {
	f := newFixture(t)
	dir := f.musicFolder()
	f.load(dir)
	f.end = func(owner, id string) (int, error) {
		if owner != "ada" || id != "music" {
			t.Errorf("ended the sessions of %s of %s", id, owner)
		}
		return 3, nil
	}
	removed, err := f.Unregister(f.ctx, "ada", "music", true)
	if err != nil || removed.ID != "music" || removed.Path != dir || removed.SessionsEnded != 3 || removed.UnregisteredAt == 0 {
		t.Errorf("removed = %+v, %v", removed, err)
	}
	_, err = f.Get(f.ctx, "ada", "music")
	refused(t, err, fault.NotFound)
	if _, err := os.Stat(filepath.Join(dir, yamlPath)); err != nil {
		t.Error(err)
	}
	if got := f.recorded(); got != "project.loaded project.approved project.unregistered" {
		t.Errorf("recorded %q", got)
	}
	if p, created, err := f.Load(f.ctx, "ada", dir); err != nil || !created || p.State != projects.Ready {
		t.Errorf("loaded again: %+v %v %v", p, created, err)
	}
}

// Nothing is removed without a confirmation, for a stranger, or while ending its sessions fails. A-PROJ-DEL-02.
func TestUnregisterRefuses(t *testing.T) {
	f := newFixture(t)
	f.load(f.musicFolder())
	_, err := f.Unregister(f.ctx, "ada", "music", false)
	if got := refused(t, err, fault.BadRequest)["reason"]; got != "confirm_required" {
		t.Errorf("details.reason = %v", got)
	}
	_, err = f.Unregister(f.ctx, "eve", "music", true)
	refused(t, err, fault.NotFound)
	boom := errors.New("boom")
	f.end = func(string, string) (int, error) { return 0, boom }
	if _, err := f.Unregister(f.ctx, "ada", "music", true); !errors.Is(err, boom) {
		t.Errorf("err = %v", err)
	}
	f.get("music")
}

// Sessions that are created while others are ended are ended too, and a project that cannot be emptied stays.
func TestUnregisterRace(t *testing.T) {
	f := newFixture(t)
	f.load(f.musicFolder())
	left := 0
	f.end = func(string, string) (int, error) {
		if _, err := f.pool.Exec(t.Context(), "update sessions set state = 'ended'"); err != nil {
			return 0, err
		}
		if left--; left < 0 {
			return 1, nil
		}
		_, err := f.pool.Exec(t.Context(), `insert into sessions (id, owner_user_id, project_id, compiled_hash, project_path, created_by, created_at, updated_at)
			values ($1, 'ada', 'music', '', '', 'ada', 0, 0)`, t.Name()+string(rune('a'+left)))
		return 1, err
	}
	left = 100
	_, err := f.Unregister(f.ctx, "ada", "music", true)
	refused(t, err, fault.Conflict)
	left = 2
	if removed, err := f.Unregister(f.ctx, "ada", "music", true); err != nil || removed.SessionsEnded != 3 {
		t.Errorf("removed = %+v, %v", removed, err)
	}
}
