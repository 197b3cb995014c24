package cage_test

import (
	"os"
	"path/filepath"
	"testing"

	"kaged.dev/services/tool-runner/internal/core/cage"
	"kaged.dev/services/tool-runner/internal/core/paths"
)

// A mount grants what is really below it; the deepest decides; one that leaves the project by a link grants nothing
// (T-PERM-03, -07).
func TestAccess(t *testing.T) {
	t.Parallel()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"src/gen/own", "src2", "docs"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"inside": "docs", "outside": "/usr"} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	space, err := paths.Open(root, paths.Rules{})
	if err != nil {
		t.Fatal(err)
	}
	defer space.Close()
	a := cage.For(&cage.Policy{Mounts: []cage.Mount{
		{Path: "project:/src", Writable: true},
		{Path: "./src/gen"},
		{Path: "src/gen/own", Writable: true},
		{Path: "./inside"},
		{Path: "./outside", Writable: true},
		{Path: "../", Writable: true},
		{Path: "/no/such/place"},
		{Path: "./not/yet", Writable: true},
	}}, space)
	for name, want := range map[string][2]bool{
		"src": {true, true}, "src/x": {true, true}, "src/gen": {true, false}, "src/gen/x": {true, false}, "src/gen/own/x": {true, true}, "src2": {}, "docs/x": {true, false},
		".": {}, "not/yet/there": {true, true}, "not": {},
	} {
		real := filepath.Join(root, name)
		if got := [2]bool{a.Allows(real, false), a.Allows(real, true)}; got != want {
			t.Errorf("%s: read, write = %v, want %v", name, got, want)
		}
	}
	if a.Allows("/usr/bin", false) || a.Allows(filepath.Dir(root), false) {
		t.Error("a mount leads outside")
	}
	if !a.Touches(root) || !a.Touches(filepath.Join(root, "not")) || a.Touches(filepath.Join(root, "src2")) {
		t.Error("what a search touches is wrong")
	}
	if none := cage.For(nil, space); !none.Uncaged() || !none.Allows("/", true) || !none.Has("x") || !none.Reaches("x") || none.Seccomp() != "" {
		t.Error("no cage forbids something")
	}
}

// The summary says what a policy grants in one line.
func TestSummary(t *testing.T) {
	t.Parallel()
	for want, policy := range map[string]*cage.Policy{
		"none": nil, "fs none; net none; seccomp default; capabilities none": {},
		"fs rw ./src, ro /usr; net a:1, b:2; seccomp relaxed; capabilities shell": {
			Mounts: []cage.Mount{{Path: "./src", Writable: true}, {Path: "/usr"}}, NetAllow: []string{"a:1", "b:2"}, Seccomp: "relaxed", Capabilities: []string{"shell"},
		},
	} {
		if got := policy.Summary(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
