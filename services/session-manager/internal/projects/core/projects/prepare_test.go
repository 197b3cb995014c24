package projects_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
)

// pin returns the pin of a session created now.
func (f *fixture) pin() projects.Pin {
	f.t.Helper()
	r, err := f.Current(f.ctx, "ada", "music")
	if err != nil {
		f.t.Fatal(err)
	}
	return projects.Pin{Owner: "ada", ProjectID: "music", Root: r.Path, CompiledHash: r.Snapshot.Hash}
}

func (f *fixture) prepare(pin projects.Pin) projects.Inputs {
	f.t.Helper()
	in, err := f.Prepare(f.ctx, pin)
	if err != nil {
		f.t.Fatal(err)
	}
	return in
}

// A run gets the session's snapshot with the present prompts and routes.
func TestPrepare(t *testing.T) {
	f := newFixture(t)
	f.load(f.musicFolder())
	pin := f.pin()
	in := f.prepare(pin)
	if d := cmp.Diff(map[string]string{
		"prompts/primary.md": "You play.", "prompts/writer.md": "You write.",
	}, in.Prompts); d != "" {
		t.Error(d)
	}
	if in.PromptHashes["prompts/primary.md"] != hashOf([]byte("You play.")) || in.Snapshot.Hash != pin.CompiledHash ||
		in.ChangedPrompts != nil {
		t.Errorf("inputs = %+v", in)
	}
	if len(in.Routes) != 2 || in.Routes["slow"].Targets[1].Model != "z" || in.Config == nil {
		t.Errorf("routes = %+v", in.Routes)
	}
	var content string
	err := f.pool.QueryRow(t.Context(), "select content from prompts where sha256 = $1",
		in.PromptHashes["prompts/writer.md"]).Scan(&content)
	if err != nil || content != "You write." {
		t.Errorf("a hash leads to %q, %v", content, err)
	}
}

// A prompt's edit takes effect at the next message, in a session that continues with its snapshot. H-DSL-TRIG-02,
// H-DSL-TRIG-03, H-PROMPT-HOT-01, H-PROMPT-01, H-FAIL-PROMPT-01.
func TestPrepareReadsPromptsAnew(t *testing.T) {
	f := newFixture(t)
	dir := f.musicFolder()
	f.load(dir)
	pin := f.pin()
	first := f.prepare(pin)
	before := f.workspace.transferred()
	pin.KnownPrompts = first.PromptHashes
	if again := f.prepare(pin); !cmp.Equal(again.Prompts, first.Prompts) || f.workspace.transferred() != before {
		t.Errorf("again = %v, %d bytes", again.Prompts, f.workspace.transferred()-before)
	}
	write(t, filepath.Join(dir, "prompts/primary.md"), "You sing.")
	write(t, filepath.Join(dir, yamlPath), strings.ReplaceAll(music, "model: fast", "model: other"))
	in := f.prepare(pin)
	if in.Prompts["prompts/primary.md"] != "You sing." || in.Snapshot.Hash != pin.CompiledHash {
		t.Errorf("inputs = %+v", in)
	}
	if d := cmp.Diff([]string{"prompts/primary.md"}, in.ChangedPrompts); d != "" {
		t.Error(d)
	}
	f.restart("1.0")
	if in := f.prepare(pin); in.Prompts["prompts/primary.md"] != "You sing." {
		t.Errorf("after a restart: %v", in.Prompts)
	}
}

// An override replaces the root agent's alias; a missing provider is reported when it is used.
func TestPrepareOverride(t *testing.T) {
	f := newFixture(t)
	f.load(f.musicFolder())
	pin := f.pin()
	pin.ModelOverride = "nobody:big"
	routes := f.prepare(pin).Routes
	if r := routes[contract.RootRoute]; r.Alias != "nobody:big" || r.Targets[0].Model != "big" ||
		r.Targets[0].Unusable == nil {
		t.Errorf("the root goes to %+v", r)
	}
	if r := routes["slow"]; r.Alias != "slow" || len(r.Targets) != 2 {
		t.Errorf("slow goes to %+v", r)
	}
}

// A message is refused while an alias of the session's snapshot is not bound or a prompt is missing, with a sentence
// that names it. H-DSL-ERR-01, H-DSL-ERR-02, A-PROJ-STATE-02.
func TestPrepareNotReady(t *testing.T) {
	f := newFixture(t)
	dir := f.musicFolder()
	f.load(dir)
	pin := f.pin()
	expect := func(message string) {
		t.Helper()
		_, err := f.Prepare(f.ctx, pin)
		if details := refused(t, err, fault.ProjectNotReady); details["reason"] != "project_not_ready" ||
			fault.From(err).Msg != message {
			t.Errorf("err = %v", err)
		}
	}
	f.configure("[models]\nslow = \"play:y\"\n")
	expect("Model alias 'fast' not found in local config.")
	f.configure(bound)
	f.prepare(pin)
	if err := os.Remove(filepath.Join(dir, "prompts/primary.md")); err != nil {
		t.Fatal(err)
	}
	expect("Prompt file not found: ./prompts/primary.md.")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	expect("Prompt file not found: ./prompts/primary.md.")
	f.workspace.fail(fault.New(fault.Unavailable, "Away."))
	_, err := f.Prepare(f.ctx, pin)
	refused(t, err, fault.Unavailable)
	f.configure("[modles]")
	_, err = f.Prepare(f.ctx, pin)
	refused(t, err, fault.LocalConfigInvalid)
	f.configure(bound)
	_, err = f.Prepare(f.ctx, projects.Pin{Owner: "ada", Root: dir, CompiledHash: "none"})
	refused(t, err, fault.NotFound)
}

// If a binding is removed during a run, the next call is refused with the alias's name.
func TestRoutesLoseAnAlias(t *testing.T) {
	f := newFixture(t)
	f.load(f.musicFolder())
	in := f.prepare(f.pin())
	f.configure("[models]\nfast = \"play:x\"\n")
	cfg, err := f.Config.Config(t.Context(), "ada")
	if err != nil {
		t.Fatal(err)
	}
	_, err = projects.Routes(cfg, in.Snapshot, "")
	if got := refused(t, err, fault.ModelAliasNotFound)["alias"]; got != "slow" {
		t.Errorf("details.alias = %v", got)
	}
}

// A session's override applies only to the root agent, and needs no binding of its alias.
func TestRoutesOfAnOverride(t *testing.T) {
	f := newFixture(t)
	f.load(f.musicFolder())
	in := f.prepare(f.pin())
	cfg, err := f.Config.Config(t.Context(), "ada")
	if err != nil {
		t.Fatal(err)
	}
	routes, err := projects.Routes(cfg, in.Snapshot, "play:z")
	if err != nil {
		t.Fatal(err)
	}
	if got := routes[contract.RootRoute].Targets[0].Model; got != "z" || routes["fast"].Targets[0].Model == "z" {
		t.Errorf("the root goes to %s, its alias to %+v", got, routes["fast"])
	}
	f.configure("[models]\nslow = \"play:y\"\n")
	if cfg, err = f.Config.Config(t.Context(), "ada"); err != nil {
		t.Fatal(err)
	}
	if _, err := projects.Routes(cfg, in.Snapshot, "play:z"); err != nil {
		t.Error(err)
	}
}

// Prompts too large for any message are refused. Many large ones are read although one answer could not hold them.
func TestPromptsAreBounded(t *testing.T) {
	f := newFixture(t)
	var yaml strings.Builder
	yaml.WriteString("version: 1\nproject: music\ndescription: d\nprimary:\n  model: fast\n  system_prompt: ./p.md\n  " +
		"cage: disabled\n  subagents:\n")
	files := []string{"p.md", "p"}
	for i := range 12 {
		fmt.Fprintf(&yaml, "    a%02d: {model: fast, system_prompt: ./p%d.md, description: d, cage: disabled}\n", i, i)
		files = append(files, fmt.Sprintf("p%d.md", i), strings.Repeat("x", 600_000))
	}
	dir := f.folder(append(files, yamlPath, yaml.String())...)
	f.load(dir)
	pin := f.pin()
	if in := f.prepare(pin); len(in.Prompts["p11.md"]) != 600_000 {
		t.Errorf("p11.md has %d bytes", len(in.Prompts["p11.md"]))
	}
	for i := range 12 {
		write(t, filepath.Join(dir, fmt.Sprintf("p%d.md", i)), strings.Repeat("y", 800_000))
	}
	_, err := f.Prepare(f.ctx, pin)
	if got := refused(t, err, fault.PayloadTooLarge)["limit_bytes"]; got != maxPrompts {
		t.Errorf("details.limit_bytes = %v", got)
	}
}
