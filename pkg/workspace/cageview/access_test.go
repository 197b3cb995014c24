package cageview_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ownpath"
	"kaged.dev/pkg/testkit"
	"kaged.dev/pkg/workspace/cageview"
)

func tree(t *testing.T, folders ...string) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	for _, dir := range folders {
		must(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	return root
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A mount grants the files really below it, except those that make tools outside the cage run code it did not choose
// (T-PERM-03, -07).
func TestAccess(t *testing.T) {
	t.Parallel()
	root := tree(t, "src/gen", "src2", ".git/objects", ".git/refs", ".git/hooks")
	views := cageview.NewViews([]ownpath.Path{testkit.Own(t, filepath.Join(root, "src2"))}, "")
	a := views.Access(&dsl.Cage{
		FS:  []dsl.Mount{{Mode: "rw", Path: "project:/src"}, {Mode: "ro", Path: "./src/gen"}, {Mode: "rw", Path: "./.git"}},
		Net: []string{"API.example.:443"}, Capabilities: []string{"shell"},
	}, root)
	if a.Err() != nil {
		t.Fatal(a.Err())
	}
	for name, want := range map[string][2]bool{
		"src": {true, true}, "src/x": {true, true}, "src/gen/x": {true, false}, "src2": {}, ".": {},
		".git/index": {true, true}, ".git/hooks/x": {true, false},
	} {
		real := filepath.Join(root, name)
		if got := [2]bool{a.Allows(real, false), a.Allows(real, true)}; got != want {
			t.Errorf("%s: read, write = %v, want %v", name, got, want)
		}
	}
	if place, ok := a.Protects(root + "/.git/hooks/x"); !ok || place != root+"/.git/hooks" {
		t.Error(place, ok)
	}
	if _, ok := a.Protects(root + "/src/gen/x"); ok {
		t.Error("what the policy only reads is called protected")
	}
	if !a.Touches(root) || !a.Touches(root+"/src/y") || a.Touches(root+"/src2") || !a.Anywhere(true) {
		t.Error("what a search touches is wrong")
	}
	if !a.Reaches("api.example:443") || a.Reaches("api.example:80") || !a.Has("shell") || a.Has("exec") ||
		a.Seccomp() != "default" {
		t.Error("what the cage grants besides files is wrong")
	}
	if none := views.Access(nil, root); !none.Uncaged() || !none.Allows("/", true) || !none.Has("x") ||
		!none.Reaches("x") ||
		none.Seccomp() != "" ||
		!none.Anywhere(true) {
		t.Error("no cage forbids something")
	}
	own := views.Access(&dsl.Cage{FS: []dsl.Mount{{Mode: "ro", Path: "./src2"}}}, root)
	if !errors.Is(own.Err(), fault.CagePolicyInvalid) || own.Allows(root+"/src2", false) || own.Anywhere(false) ||
		own.Touches(root) {
		t.Errorf("kaged's own folder is granted: %v", own.Err())
	}
}

// A view is kept for the next calls until a granted path is gone, comes back or becomes another file.
func TestViewsFollowTheFiles(t *testing.T) {
	t.Parallel()
	root := tree(t, "src", "out")
	views := cageview.NewViews(nil, "")
	policy := &dsl.Cage{FS: []dsl.Mount{{Mode: "rw", Path: "./src"}}}
	granted := func() error { return views.Access(policy, root).Err() }
	must(t, granted())
	must(t, os.Rename(root+"/src", root+"/gone"))
	if !errors.Is(granted(), fault.CagePolicyInvalid) {
		t.Error("what is gone is granted")
	}
	must(t, os.Symlink("out", root+"/src"))
	if !errors.Is(granted(), fault.CagePolicyInvalid) {
		t.Error("a link is granted")
	}
	must(t, os.Remove(root+"/src"))
	must(t, os.MkdirAll(root+"/src/.git/hooks", 0o755))
	must(t, granted())
	if views.Access(policy, root).Allows(root+"/src/.git/hooks/x", true) {
		t.Error("a repository that came meanwhile is not protected")
	}
}

// A folder in the place of a removed file is noticed, though file systems give it the file's inode often.
func TestViewsNoticeAFolderInPlaceOfAFile(t *testing.T) {
	t.Parallel()
	root := tree(t)
	views := cageview.NewViews(nil, "")
	policy := &dsl.Cage{FS: []dsl.Mount{{Mode: "ro", Path: "./b"}}}
	for range 50 {
		must(t, os.WriteFile(root+"/b", nil, 0o644))
		if a := views.Access(policy, root); !a.GrantsFile(root + "/b") {
			t.Fatal("the file is not granted as a file")
		}
		must(t, os.Remove(root+"/b"))
		must(t, os.Mkdir(root+"/b", 0o755))
		if a := views.Access(policy, root); !a.Allows(root+"/b/x", false) {
			t.Fatal("a file in the granted folder is not")
		}
		must(t, os.Remove(root+"/b"))
	}
}
