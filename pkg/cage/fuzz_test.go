package cage_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kaged.dev/pkg/cage"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
)

// Compiling a policy grants each of its paths as a real path without links below the project, or as the absolute path
// itself, or refuses the policy with the field. Paths of the machine and of kaged are never granted.
func FuzzCompilePath(f *testing.F) {
	for _, path := range []string{
		"project:/src", "./src/", ".", "/", "/usr", "/bin/sh", "/proc/self/root", "./link", "./link/../src", "project://src",
		"./src/../..", "/usr/../etc", "./a\x00b", "src", "//usr",
		"project:/own/secret", "./own", "/dev/../usr", "./.git", "project:/.git/hooks", "./src\n", "/usr/./bin",
	} {
		f.Add(path, true)
	}
	root, err := os.MkdirTemp("", "kaged-fuzz-")
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { os.RemoveAll(root) })
	if root, err = filepath.EvalSymlinks(root); err != nil {
		f.Fatal(err)
	}
	for _, dir := range []string{"src", "own/secret", ".git/hooks"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			f.Fatal(err)
		}
	}
	if err := os.Symlink("/usr", filepath.Join(root, "link")); err != nil {
		f.Fatal(err)
	}
	secret := filepath.Join(root, "own/secret")
	ownPath := own(f, secret)
	f.Fuzz(func(t *testing.T, path string, write bool) {
		mode := "ro"
		if write && (strings.HasPrefix(path, ".") || strings.HasPrefix(path, "project:")) {
			mode = "rw" // in other folders the search for repositories would take long
		}
		v, err := cage.Compile(&dsl.Cage{FS: []dsl.Mount{{Mode: mode, Path: path}}}, root, cage.Forbidden(ownPath))
		if err != nil {
			if e := fault.From(err); e.Code != fault.CagePolicyInvalid ||
				!strings.HasPrefix(e.Details["field"].(string), "cage.fs") {
				t.Fatalf("%q: %v", path, err)
			}
			return
		}
		for _, g := range v.Grants {
			if real, err := filepath.EvalSymlinks(g.Path); !g.Missing && (err != nil || real != g.Path) {
				t.Fatalf("%q grants %s, which is %s (%v)", path, g.Path, real, err)
			}
			if _, inside := dsl.InProject(path); inside && !cage.Below(g.Path, root) {
				t.Fatalf("%q of the project grants %s", path, g.Path)
			}
		}
		for _, never := range []string{secret, secret + "/x", "/proc/1", "/sys", "/dev/sda", "/run/x"} {
			if v.Allows(never, false) {
				t.Fatalf("%q grants %s", path, never)
			}
		}
	})
}
