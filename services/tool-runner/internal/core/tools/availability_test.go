package tools_test

import (
	"cmp"
	"testing"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
)

// The rights of each kind of caller on each tool: without a cage, in a cage with the default system calls, and in one
// with the relaxed set. The cages grant docs for reading and src for writing (T-AVAIL-01 to T-AVAIL-04, T-AVAIL-10,
// T-SHELL-18). The rights depend on the cage and not on the agent: a subagent with a disabled cage has the same rights
// as the root agent (T-DISP-09).
func TestAvailabilityByCage(t *testing.T) {
	t.Parallel()
	mounts := []dsl.Mount{{Mode: "ro", Path: "project:/docs"}, {Mode: "rw", Path: "./src"}}
	shell := []string{"shell"}
	callers := []struct {
		name  string
		agent string // the root agent if empty
		cage  *dsl.Cage
		caged bool
		shell bool
	}{
		{name: "uncaged", shell: true},
		{name: "uncaged subagent", agent: "primary.subagents.x", shell: true},
		{name: "default", cage: &dsl.Cage{FS: mounts}, caged: true},
		{name: "default with shell", cage: &dsl.Cage{FS: mounts, Capabilities: shell}, caged: true, shell: true},
		{name: "relaxed", cage: &dsl.Cage{FS: mounts, Seccomp: "relaxed"}, caged: true},
		{
			name: "relaxed with shell", cage: &dsl.Cage{FS: mounts, Seccomp: "relaxed", Capabilities: shell}, caged: true,
			shell: true,
		},
	}
	for _, who := range callers {
		t.Run(who.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.from.Cage, b.from.KnowsFiles = who.cage, true
			b.from.Agent = cmp.Or(who.agent, b.from.Agent)
			for _, name := range []string{"top.txt", "docs/a.txt", "src/a.txt"} {
				b.write(name, "needle one two\n")
			}
			does := func(allowed bool, tool string, params in) {
				t.Helper()
				if allowed {
					b.ok(tool, params, nil)
					return
				}
				b.fails(fault.CapabilityDenied, tool, params)
			}
			for path, grant := range map[string]struct{ read, write bool }{
				"top.txt": {!who.caged, !who.caged}, "docs/a.txt": {true, !who.caged}, "src/a.txt": {true, true},
			} {
				does(grant.read, "file.read", in{"path": path})
				does(grant.write, "edit.text", in{"path": path, "old_string": "one", "new_string": "1"})
				does(grant.write, "file.write", in{"path": path, "content": "needle\n"})
				does(grant.write, "file.create", in{"path": path + ".new", "content": "x"})
				does(grant.read, "search.grep", in{"pattern": "needle", "path": path})
			}
			for folder, grant := range map[string]bool{"docs": true, "src": true, "other": !who.caged} {
				b.write(folder+"/x.md", "needle\n")
				does(grant, "file.list", in{"path": folder})
				does(grant, "search.glob", in{"pattern": "*", "path": folder})
				does(grant, "search.grep", in{"pattern": "needle", "path": folder})
				does(who.shell && (folder == "src" || !who.caged), "shell.bash", in{"command": "true", "cwd": folder})
			}
		})
	}
}

// A caller that tracks the content of its files itself may overwrite files it has not read; other callers must read
// them first.
func TestCallersThatKnowTheirFiles(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("a.txt", "old\n")
	b.fails(fault.FileNotRead, "file.write", in{"path": "a.txt", "content": "new\n"})
	b.from.KnowsFiles = true
	b.ok("file.write", in{"path": "a.txt", "content": "new\n"}, nil)
	b.ok("edit.text", in{"path": "a.txt", "old_string": "new", "new_string": "newer"}, nil)
	if got := b.content("a.txt"); got != "newer\n" {
		t.Errorf("a.txt holds %q", got)
	}
}
