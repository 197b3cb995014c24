package e2e_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// A pending project's unresolved references are those of its load, and a ready project has empty lists
// (A-PROJ-UNRES-01). A child without a cage is a warning with its place in the tree (A-SYN-10).
func TestUnresolvedAndWarnings(t *testing.T) {
	t.Parallel()
	type reference struct {
		Name   string
		UsedBy []string `json:"used_by"`
	}
	type unresolved struct{ Aliases, Plugins, Prompts []reference }
	type loaded struct {
		ID, State  string
		Unresolved unresolved
	}
	w := kagedtest.NewWorld(t, kagedtest.FakeModels(fakellm.Start(t), "anthropic"))
	w.Up(t, databaseEnv(t))
	c := w.SignIn(t)
	dir := w.Dir + "/pair"
	load := func(model string) loaded {
		kagedtest.Write(t, dir, "prompt.md", "Be kind.")
		kagedtest.Write(t, dir, ".kaged/project.yaml", "version: 1\nproject: pair\nprimary:\n  model: smart-generalist\n"+
			"  system_prompt: ./prompt.md\n  cage: disabled\n  subagents:\n    builder:\n      description: Builds.\n"+
			"      model: "+model+"\n      system_prompt: ./prompt.md\n      cage: disabled\n")
		return kagedtest.Post[loaded](t, c, "/api/v1/projects/load", map[string]any{"path": dir})
	}
	pending := load("nobody-has-bound-it")
	if pending.State != "pending" || len(pending.Unresolved.Aliases) != 1 {
		t.Errorf("loaded %+v", pending)
	}
	const path = "/api/v1/projects/pair/"
	if diff := cmp.Diff(pending.Unresolved, kagedtest.Get[unresolved](t, c, path+"unresolved")); diff != "" {
		t.Errorf("load -, unresolved +:\n%s", diff)
	}
	ready := load("smart-generalist")
	empty := unresolved{Aliases: []reference{}, Plugins: []reference{}, Prompts: []reference{}}
	if diff := cmp.Diff(empty, kagedtest.Get[unresolved](t, c, path+"unresolved")); diff != "" || ready.State != "ready" {
		t.Errorf("a project that is %s:\n%s", ready.State, diff)
	}
	synthesized := kagedtest.Get[struct{ Warnings []string }](t, c, path+"dsl/synthesized")
	if !slices.ContainsFunc(synthesized.Warnings, func(s string) bool {
		return strings.HasPrefix(s, "primary.subagents.builder") && strings.Contains(s, "cage")
	}) {
		t.Errorf("warnings %q", synthesized.Warnings)
	}
}
