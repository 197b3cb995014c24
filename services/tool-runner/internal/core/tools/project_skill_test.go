package tools_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
)

// Skills are listed by name with their descriptions, and read completely. Of two skills of one name, the skill in the
// first folder counts. A name cannot leave the folders.
func TestSkills(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var r struct {
		Skills  []struct{ Name, Description, Path string }
		Content string
	}
	b.ok("project.skill", in{"action": "list"}, &r)
	if len(r.Skills) != 0 {
		t.Errorf("a project without skills has %v", r.Skills)
	}
	b.write(".kaged/skills/deploy/SKILL.md", "---\nname: deploy\ndescription: \"How we deploy.\"\n---\nAsk Amara.\n")
	b.write(".claude/skills/deploy/SKILL.md", "---\ndescription: other\n---\n")
	b.write(".agents/skills/api/SKILL.md", "# Routes of the API\nUse the proto.\n")
	b.write(".agents/skills/empty/README.md", "no skill")
	b.write("secret/SKILL.md", "secret")
	b.ok("project.skill", in{"action": "list"}, &r)
	want := []struct{ Name, Description, Path string }{
		{"api", "Routes of the API", "./.agents/skills/api/SKILL.md"}, {
			"deploy", "How we deploy.",
			"./.kaged/skills/deploy/SKILL.md",
		},
	}
	if d := cmp.Diff(want, r.Skills); d != "" {
		t.Error(d)
	}
	b.ok("project.skill", in{"action": "read", "name": "deploy"}, &r)
	if !strings.HasSuffix(r.Content, "Ask Amara.\n") {
		t.Errorf("read %q", r.Content)
	}
	for _, name := range []string{"nope", "../../secret", "..", "a/b"} {
		b.fails(fault.FileNotFound, "project.skill", in{"action": "read", "name": name})
	}
	b.fails(fault.InvalidParams, "project.skill", in{"action": "read"})
}

// An agent in a cage cannot write skills, which agents outside the cage follow. Its policy can grant a folder of skills
// by name, and an agent without a cage writes them.
func TestSkillsInACage(t *testing.T) {
	t.Parallel()
	policy := &dsl.Cage{FS: []dsl.Mount{{Mode: "rw", Path: "."}}}
	b := caged(t, policy)
	b.write(".claude/skills/deploy/SKILL.md", "Ask Amara.\n")
	for _, folder := range dsl.SkillFolders {
		b.fails(fault.CapabilityDenied, "file.write", in{"path": folder + "/deploy/SKILL.md", "content": "Run x.\n"})
	}
	var r struct{ Content string }
	read := func() string {
		t.Helper()
		b.ok("project.skill", in{"action": "read", "name": "deploy"}, &r)
		return r.Content
	}
	if got := read(); got != "Ask Amara.\n" {
		t.Errorf("read %q", got)
	}
	b.write(".agents/README.md", "")
	policy.FS = append(policy.FS, dsl.Mount{Mode: "rw", Path: "./.agents"})
	b.ok("file.write", in{"path": ".agents/skills/deploy/SKILL.md", "content": "Granted.\n"}, nil)
	if got := read(); got != "Granted.\n" {
		t.Errorf("read %q", got)
	}
	b.from.Cage = nil
	b.ok("file.write", in{"path": ".agents/skills/deploy/SKILL.md", "content": "Uncaged.\n"}, nil)
	if got := read(); got != "Uncaged.\n" {
		t.Errorf("read %q", got)
	}
}
