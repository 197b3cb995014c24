package projects_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/dsl"
	"kaged.dev/services/session-manager/internal/projects/core/approval"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
)

// A snapshot read from its bytes equals the compilation.
func TestOutline(t *testing.T) {
	f := newFixture(t)
	hash := f.load(f.musicFolder()).CompiledHash
	made, err := f.Snapshot(f.ctx, hash)
	if err != nil {
		t.Fatal(err)
	}
	cage := &dsl.Cage{
		FS: []dsl.Mount{{Mode: "rw", Path: "project:/src", At: ".kaged/project.yaml:15:30"}}, Seccomp: "default",
		State: "ephemeral",
	}
	want := projects.Outline{
		RootModel: "fast",
		Capabilities: projects.Capabilities{
			Tools: []string{"file.read"}, ToolsOff: []string{"file.write", "shell.bash"},
			Agents: []projects.AgentCage{
				{Path: "primary", Summary: "none"},
				{Path: "primary.subagents.writer", Caged: true, Summary: cage.Summary()},
			},
		},
		Aliases: []projects.Reference{
			{Name: "fast", UsedBy: []string{"primary"}}, {Name: "slow", UsedBy: []string{"primary.subagents.writer"}},
		},
		Prompts: []projects.Reference{
			{Name: "prompts/primary.md", UsedBy: []string{"primary.system_prompt"}},
			{Name: "prompts/writer.md", UsedBy: []string{"primary.subagents.writer.system_prompt"}},
		},
		Agents: []approval.Agent{
			{Path: "primary", Model: "fast", Prompt: "prompts/primary.md", Tools: []string{"file.read"}},
			{Path: "primary.subagents.writer", Model: "slow", Prompt: "prompts/writer.md", Cage: cage},
		},
	}
	if d := cmp.Diff(want, made.Outline); d != "" {
		t.Errorf("the compilation's outline, -want +got:\n%s", d)
	}
	f.restart("1.0")
	read, err := f.Snapshot(f.ctx, hash)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(made, read); d != "" {
		t.Errorf("the stored snapshot, -made +read:\n%s", d)
	}
}
