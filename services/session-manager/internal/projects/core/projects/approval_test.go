package projects_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
)

// The project with the agents of music, and a writer that may write ./src.
const (
	wideOpen = "fs:\n          - {mode: rw, path: \"project:/\"}"
	narrow   = "fs:\n          - {mode: rw, path: \"project:/src\"}"
)

func (f *fixture) approval() projects.Approval {
	f.t.Helper()
	a, err := f.Approval(f.ctx, "ada", "music")
	if err != nil {
		f.t.Fatal(err)
	}
	return a
}

// widen writes a project file that grants the writer more.
func widen(f *fixture, dir string) {
	f.t.Helper()
	write(f.t, filepath.Join(dir, yamlPath), strings.ReplaceAll(music, narrow, wideOpen))
}

// load and reload refuse a file that widens the approved version, with its widenings, the diff and the hash to approve.
// The project stays ready on the approved version, and sessions can start with it. After the approval the file takes
// effect.
func TestWideningNeedsApproval(t *testing.T) {
	f := newFixture(t)
	dir := f.musicFolder()
	first := f.load(dir)
	if first.ApprovedHash == "" || first.ApprovedBy != projects.ByFirstLoad || f.approval().Required {
		t.Fatalf("the first load: %+v, %+v", first, f.approval())
	}
	pin := f.pin()
	widen(f, dir)
	_, reload := f.Reload(f.ctx, "ada", "music")
	_, _, load := f.Load(f.ctx, "ada", dir)
	for how, err := range map[string]error{"reload": reload, "load": load} {
		d := refused(t, err, fault.Conflict)
		if d["reason"] != "approval_required" || d["project_id"] != "music" ||
			!strings.Contains(fmt.Sprint(d["diff"]), "+          - {mode: rw, path: \"project:/\"}") {
			t.Errorf("%s: details %v", how, d)
		}
		if got := fmt.Sprint(
			d["widened"],
		); got != "[map[agent_path:primary.subagents.writer from:<nil> key:cage.fs to:rw project:/]]" {
			t.Errorf("%s: widened %s", how, got)
		}
		if d["hash"] != f.approval().PendingHash {
			t.Errorf("%s: hash %v, want that of the approval", how, d["hash"])
		}
	}
	if d := f.get("music"); d.State != projects.Ready || d.CompiledHash != first.CompiledHash {
		t.Errorf("the project is %s on %s", d.State, d.CompiledHash)
	}
	if now := f.pin(); now.CompiledHash != pin.CompiledHash {
		t.Error("a session would begin on the version that is not approved")
	}
	f.prepare(pin)
	a := f.approval()
	if !a.Required || a.ApprovedHash != first.ApprovedHash || len(a.Widened) != 1 {
		t.Errorf("the approval: %+v", a)
	}
	done, err := f.Approve(f.ctx, "ada", "music", a.PendingHash)
	if err != nil || done.Hash != a.PendingHash || done.By != projects.ByOperator || done.At == 0 {
		t.Fatalf("approved %+v, %v", done, err)
	}
	if again, err := f.Approve(f.ctx, "ada", "music", a.PendingHash); err != nil || again != done {
		t.Errorf("approved again: %+v, %v", again, err)
	}
	if d := f.get("music"); d.CompiledHash == first.CompiledHash || d.ApprovedHash != done.Hash || f.approval().Required {
		t.Errorf("after the approval: %+v", d.Project)
	}
	const want = "project.loaded project.approved project.approval_required project.approval_required project.reloaded " +
		"project.approved"
	if got := f.recorded(); got != want {
		t.Errorf("recorded %q, want %q", got, want)
	}
}

// A change that narrows, or has no effect, takes effect at the reload. Reverting it widens and needs approval again.
func TestNarrowingNeedsNoApproval(t *testing.T) {
	f := newFixture(t)
	dir := f.musicFolder()
	first := f.load(dir)
	write(t, filepath.Join(dir, yamlPath), strings.ReplaceAll(music, narrow, "fs: []"))
	p, err := f.Reload(f.ctx, "ada", "music")
	if err != nil || p.CompiledHash == first.CompiledHash || p.ApprovedHash == first.ApprovedHash ||
		p.ApprovedBy != projects.ByFirstLoad {
		t.Fatalf("narrowed: %+v, %v", p, err)
	}
	write(t, filepath.Join(dir, yamlPath), music)
	_, err = f.Reload(f.ctx, "ada", "music")
	refused(t, err, fault.Conflict)
}

// After an invalid file, a file that widens leaves the project ready on the approved version.
func TestWideningAfterAnInvalidFile(t *testing.T) {
	f := newFixture(t)
	dir := f.musicFolder()
	first := f.load(dir)
	write(t, filepath.Join(dir, yamlPath), "version: [")
	_, err := f.Reload(f.ctx, "ada", "music")
	refused(t, err, fault.DSLInvalid)
	widen(f, dir)
	_, err = f.Reload(f.ctx, "ada", "music")
	refused(t, err, fault.Conflict)
	if d := f.get("music"); d.State != projects.Ready || d.CompiledHash != first.CompiledHash {
		t.Errorf("the project is %s on %s, want ready on %s", d.State, d.CompiledHash, first.CompiledHash)
	}
}

// Only the shown version can be approved: a file that changed after that is refused with its own diff.
func TestApprovalOfAnotherFile(t *testing.T) {
	f := newFixture(t)
	dir := f.musicFolder()
	f.load(dir)
	widen(f, dir)
	shown := f.approval().PendingHash
	write(
		t, filepath.Join(dir, yamlPath), strings.ReplaceAll(music, "      cage:\n        "+narrow+"\n",
			"      cage: disabled\n"),
	)
	_, err := f.Approve(f.ctx, "ada", "music", shown)
	d := refused(t, err, fault.Conflict)
	if d["reason"] != "approval_changed" || d["hash"] == shown || d["hash"] != f.approval().PendingHash ||
		!strings.Contains(fmt.Sprint(d["diff"]), "+      cage: disabled") {
		t.Errorf("details %v", d)
	}
	for _, hash := range []string{"", "nonsense"} {
		if _, err := f.Approve(f.ctx, "ada", "music", hash); err == nil {
			t.Errorf("%q was approved", hash)
		}
	}
	if !f.approval().Required {
		t.Error("something was approved")
	}
}

// Of simultaneous approvals of two versions, each applies to its own files: the one with outdated files is refused, and
// the finally approved version is completely one of them.
func TestApprovalsRace(t *testing.T) {
	f := newFixture(t)
	dir := f.musicFolder()
	f.load(dir)
	widen(f, dir)
	first := f.approval().PendingHash
	free := strings.ReplaceAll(music, "      cage:\n        "+narrow+"\n", "      cage: disabled\n")
	write(t, filepath.Join(dir, yamlPath), free)
	second := f.approval().PendingHash
	var wg sync.WaitGroup
	outcomes := make([]error, 8)
	for i := range outcomes {
		wg.Go(func() { _, outcomes[i] = f.Approve(f.ctx, "ada", "music", []string{first, second}[i%2]) })
	}
	wg.Wait()
	for i, err := range outcomes {
		if i%2 == 1 && err != nil {
			t.Errorf("approving what is there: %v", err)
		}
		if i%2 == 0 && refused(t, err, fault.Conflict)["reason"] != "approval_changed" {
			t.Errorf("approving what is gone: %v", err)
		}
	}
	if p := f.get("music"); p.ApprovedHash != second || f.approval().Required {
		t.Errorf("approved is %s, want %s", p.ApprovedHash, second)
	}
	if n := strings.Count(f.recorded(), "project.approved"); n != 2 {
		t.Errorf("%d approvals are recorded, want the first load's and one", n)
	}
}

// If the operator has configured it, a project needs approval before its first run.
func TestFirstLoadAsks(t *testing.T) {
	f := newFixture(t)
	f.configure(bound + "[projects]\nfirst_load = \"ask\"\n")
	dir := f.musicFolder()
	for range 2 {
		_, _, err := f.Load(f.ctx, "ada", dir)
		if d := refused(t, err, fault.Conflict); d["reason"] != "approval_required" ||
			!strings.Contains(fmt.Sprint(d["diff"]), "+project: music") {
			t.Errorf("details %v", d)
		}
	}
	if d := f.get("music"); d.State != projects.Pending {
		t.Errorf("the project is %s", d.State)
	}
	_, err := f.Current(f.ctx, "ada", "music")
	refused(t, err, fault.ProjectNotReady)
	_, err = f.Capabilities(f.ctx, "ada", "music")
	refused(t, err, fault.ProjectNotReady)
	a := f.approval()
	if !a.Required || a.ApprovedHash != "" || len(a.Widened) != 2 {
		t.Errorf("the approval: %+v", a)
	}
	if done, err := f.Approve(f.ctx, "ada", "music", a.PendingHash); err != nil || done.By != projects.ByOperator {
		t.Fatal(done, err)
	}
	if d := f.get("music"); d.State != projects.Ready {
		t.Errorf("approved it is %s", d.State)
	}
	f.pin()
}

// A project file that a caged agent can have written, because it is in a writable folder of a registered project's
// agents, needs an operator's approval at its first load. Files that were approved with that project need no second
// approval.
func TestFirstLoadOfWhatAgentsWrote(t *testing.T) {
	const inner = "version: 1\nproject: inner\nprimary: {model: fast, system_prompt: ./p.md, cage: disabled}\n"
	const outer = "version: 1\nproject: outer\nprimary:\n  model: fast\n  system_prompt: ./p.md\n  cage: {fs: [{mode: " +
		"rw, path: \"project:/\"}]}\n"
	nested := strings.Replace(outer, "  cage:", "  subagents: {lib: {path: ./sub}}\n  cage:", 1)
	for _, tt := range []struct {
		name, outer, at string
		asks            bool
	}{
		{"below a writable project", outer, "sub", true},
		{"deep below one", outer, "a/b/c", true},
		{"below what is read-only", strings.Replace(outer, "mode: rw", "mode: ro", 1), "sub", false},
		{"beside the folder that is writable", strings.Replace(outer, "project:/", "project:/src", 1), "sub", false},
		{
			"the folder that is writable, whose .kaged is held", strings.Replace(outer, "project:/", "project:/sub", 1), "sub",
			false,
		},
		{
			"the folder that is writable, and its .kaged is named",
			strings.Replace(outer, "project:/", "project:/sub/.kaged", 1), "sub", true,
		},
		{"a nested project of the writable one", nested, "sub", false},
		{"a nested project that was changed", nested, "sub", true},
		{
			"below an agent without a cage", strings.Replace(outer, "{fs: [{mode: rw, path: \"project:/\"}]}", "disabled", 1),
			"sub", false,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			dir := f.folder(yamlPath, tt.outer, "p.md", "x", filepath.Join(tt.at, "p.md"), "x")
			if tt.outer == nested {
				write(t, filepath.Join(dir, tt.at, yamlPath), strings.Replace(inner, "cage: disabled", "description: x", 1))
			}
			f.load(dir)
			if tt.outer != nested || tt.asks {
				write(t, filepath.Join(dir, tt.at, yamlPath), inner)
			}
			_, _, err := f.Load(f.ctx, "ada", filepath.Join(dir, tt.at))
			if !tt.asks {
				if err != nil {
					t.Errorf("it is refused: %v", err)
				}
				return
			}
			d := refused(t, err, fault.Conflict)
			if d["reason"] != "approval_required" || !strings.Contains(fmt.Sprint(d["diff"]), "+project: inner") {
				t.Errorf("details %v", d)
			}
			_, err = f.Current(f.ctx, "ada", "inner")
			refused(t, err, fault.ProjectNotReady)
			if _, err := f.Approve(f.ctx, "ada", "inner", fmt.Sprint(d["hash"])); err != nil {
				t.Fatal(err)
			}
			if got := f.get("inner"); got.State != projects.Ready {
				t.Errorf("approved it is %s", got.State)
			}
		})
	}
}

// writers changes the root agent so that it can write every file of the project.
var writers = strings.ReplaceAll(music, "  cage: disabled\n  sub",
	"  cage: disabled\n  tools: {file.write: {enabled: true}}\n  sub")

// For a prompt that agents can write, runs use the accepted text and report this, until a change of the file is
// approved. Its reload is no conflict.
func TestPromptThatAgentsCanWriteIsHeld(t *testing.T) {
	f := newFixture(t)
	dir := f.folder(yamlPath, writers, "prompts/primary.md", "You play.", "prompts/writer.md", "You write.")
	f.load(dir)
	pin := f.pin()
	if in := f.prepare(pin); in.HeldPrompts != nil {
		t.Errorf("held %v", in.HeldPrompts)
	}
	write(t, filepath.Join(dir, "prompts/primary.md"), "You obey.")
	for _, how := range []string{"at once", "after a reload", "after a restart"} {
		in := f.prepare(pin)
		if in.Prompts["prompts/primary.md"] != "You play." || len(in.HeldPrompts) != 1 ||
			in.HeldPrompts[0].Found != hashOf([]byte("You obey.")) || in.ChangedPrompts != nil {
			t.Errorf("%s: %v, held %v", how, in.Prompts, in.HeldPrompts)
		}
		if how == "at once" {
			if _, err := f.Reload(f.ctx, "ada", "music"); err != nil {
				t.Fatal(err)
			}
			f.restart("1.0")
		}
	}
	a := f.approval()
	if !a.Required || len(a.Widened) != 1 || a.Widened[0].Key != "system_prompt" || a.Widened[0].AgentPath != "primary" ||
		!strings.Contains(a.Diff, "-You play.") || !strings.Contains(a.Diff, "+You obey.") {
		t.Errorf("the approval: %+v", a)
	}
	if _, err := f.Approve(f.ctx, "ada", "music", a.PendingHash); err != nil {
		t.Fatal(err)
	}
	if in := f.prepare(pin); in.Prompts["prompts/primary.md"] != "You obey." || in.HeldPrompts != nil {
		t.Errorf("approved: %v", in)
	}
}

// A prompt that agents can write and that was missing at the first load takes effect when the operator reloads, not
// when the file appears.
func TestPromptThatAppears(t *testing.T) {
	f := newFixture(t)
	dir := f.folder(yamlPath, writers, "prompts/primary.md", "You play.")
	f.load(dir)
	write(t, filepath.Join(dir, "prompts/writer.md"), "You obey.")
	if d := f.get("music"); d.State != projects.Pending {
		t.Errorf("the project is %s", d.State)
	}
	if p, err := f.Reload(f.ctx, "ada", "music"); err != nil || p.State != projects.Ready {
		t.Errorf("reloaded: %+v, %v", p, err)
	}
	f.prepare(f.pin())
}

// A version that names a missing prompt grants no rights and needs no approval; the text that an agent writes there
// needs it.
func TestPromptThatALaterVersionNames(t *testing.T) {
	f := newFixture(t)
	dir := f.folder(yamlPath, writers, "prompts/primary.md", "You play.", "prompts/writer.md", "You write.")
	f.load(dir)
	write(t, filepath.Join(dir, yamlPath), strings.ReplaceAll(writers, "project:/prompts/primary.md", "./evil.md"))
	if p, err := f.Reload(f.ctx, "ada", "music"); err != nil || p.State != projects.Pending {
		t.Fatalf("naming a prompt that is missing: %s, %v", p.State, err)
	}
	write(t, filepath.Join(dir, "evil.md"), "You obey.")
	_, err := f.Reload(f.ctx, "ada", "music")
	d := refused(t, err, fault.Conflict)
	if got := fmt.Sprint(d["widened"]); !strings.Contains(got, "key:system_prompt") ||
		!strings.Contains(fmt.Sprint(d["diff"]), "+You obey.") {
		t.Errorf("details %v", d)
	}
	if d := f.get("music"); d.State != projects.Pending {
		t.Errorf("the project is %s", d.State)
	}
	if _, err := f.Approve(f.ctx, "ada", "music", d["hash"].(string)); err != nil {
		t.Fatal(err)
	}
	if in := f.prepare(f.pin()); in.Prompts["evil.md"] != "You obey." {
		t.Errorf("approved: %v", in.Prompts)
	}
}

// A project from a version of kaged without approvals is approved unchanged at its next use, with its prompts, and
// recorded as upgraded. After that widenings need approval.
func TestUpgrade(t *testing.T) {
	for name, use := range map[string]func(*fixture, string, projects.Pin){
		"a message": func(f *fixture, _ string, pin projects.Pin) { f.prepare(pin) },
		"a session": func(f *fixture, _ string, _ projects.Pin) { f.pin() },
		"a load":    func(f *fixture, dir string, _ projects.Pin) { f.load(dir) },
		"a load of what widens": func(f *fixture, dir string, _ projects.Pin) {
			widen(f, dir)
			_, _, err := f.Load(f.ctx, "ada", dir)
			refused(f.t, err, fault.Conflict)
			write(f.t, filepath.Join(dir, yamlPath), music)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			dir := f.musicFolder()
			f.load(dir)
			pin := f.pin()
			if _, err := f.pool.Exec(t.Context(), "update projects set approved_hash = '', approved_at = 0, approved_by = "+
				"'', accepted_prompts = '{}'"); err != nil {
				t.Fatal(err)
			}
			f.restart("1.0")
			use(f, dir, pin)
			if p := f.get("music"); p.ApprovedHash == "" || p.ApprovedBy != projects.ByUpgrade || len(p.AcceptedPrompts) != 2 {
				t.Errorf("after the upgrade: %+v", p.Project)
			}
			widen(f, dir)
			_, err := f.Reload(f.ctx, "ada", "music")
			refused(t, err, fault.Conflict)
			if got := f.recorded(); strings.Count(got, "project.approved") != 2 {
				t.Errorf("recorded %q", got)
			}
		})
	}
}

// The operator's rules take effect at once and are no change of the project's files.
func TestOperatorRulesNeedNoApproval(t *testing.T) {
	f := newFixture(t)
	dir := f.musicFolder()
	f.load(dir)
	f.configure(bound + "[default_tools]\n\"*\" = {enabled = true}\n")
	if _, err := f.Reload(f.ctx, "ada", "music"); err != nil {
		t.Error(err)
	}
}

// The diff of a file that was padded to hide a change is cut to the limit, and the list of widenings has the change
// nevertheless.
func TestDiffIsBounded(t *testing.T) {
	f := newFixture(t)
	dir := f.musicFolder()
	f.load(dir)
	padding := strings.Repeat("# nothing to see here, nothing at all\n", 4000)
	write(t, filepath.Join(dir, yamlPath), padding+strings.ReplaceAll(music, narrow, wideOpen))
	_, err := f.Reload(f.ctx, "ada", "music")
	d := refused(t, err, fault.Conflict)
	if diff := d["diff"].(string); len(diff) > 64<<10 || !strings.Contains(diff, "bytes more are not shown") {
		t.Errorf("the diff has %d bytes and ends %q", len(diff), diff[len(diff)-60:])
	}
	if !strings.Contains(fmt.Sprint(d["widened"]), "cage.fs") {
		t.Errorf("widened %v", d["widened"])
	}
}

// A project without its file keeps its approval.
func TestApprovalWithoutAFile(t *testing.T) {
	f := newFixture(t)
	dir := f.musicFolder()
	f.load(dir)
	if err := os.Remove(filepath.Join(dir, yamlPath)); err != nil {
		t.Fatal(err)
	}
	_, err := f.Approval(f.ctx, "ada", "music")
	refused(t, err, fault.NotFound)
	_, err = f.Approve(f.ctx, "ada", "music", "x")
	refused(t, err, fault.NotFound)
	_, err = f.Approval(f.ctx, "ada", "nope")
	refused(t, err, fault.NotFound)
}
