package cage_test

import (
	"os"
	"path/filepath"
	"testing"

	"kaged.dev/pkg/cage"
	"kaged.dev/pkg/dsl"
)

// A policy that names an empty .git may make a repository of it, but not the hooks and the configuration that git
// would run.
func TestEmptyGit(t *testing.T) {
	t.Parallel()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	git := filepath.Join(root, ".git")
	if err := os.Mkdir(git, 0o755); err != nil {
		t.Fatal(err)
	}
	view, err := cage.Compile(&dsl.Cage{FS: []dsl.Mount{{Mode: "rw", Path: "./"}, {Mode: "rw", Path: "./.git"}}}, root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"HEAD": true, "objects/x": true, "hooks/pre-commit": false, "config": false, "config.worktree": false,
		"commondir": false,
	} {
		if got := view.Allows(filepath.Join(git, name), true); got != want {
			t.Errorf("writing .git/%s is allowed: %v", name, got)
		}
	}
}
