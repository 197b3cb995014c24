package ownpath_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kaged.dev/pkg/ownpath"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tree makes a folder with a project and link targets, and changes into the project.
func tree(t *testing.T) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	for _, dir := range []string{"p/sub", "data", "etc"} {
		must(t, os.MkdirAll(filepath.Join(root, dir), 0o700))
	}
	must(t, os.WriteFile(filepath.Join(root, "file"), nil, 0o600))
	for link, target := range map[string]string{
		"p/cfg": "../etc", "p/dangling": "sub/not-yet.toml", "p/chain": "cfg", "p/abs": filepath.Join(root, "data"),
		"p/ring": "ring", "p/up": "..",
	} {
		must(t, os.Symlink(target, filepath.Join(root, link)))
	}
	t.Chdir(filepath.Join(root, "p"))
	return root
}

// Every spelling of a path is resolved to the file's real path, existing or not, with the links on the way.
func TestResolve(t *testing.T) {
	root := tree(t)
	for name, want := range map[string]struct {
		at    string
		links []string
	}{
		"data":                     {"p/data", nil},
		"./data/../local.toml":     {"p/local.toml", nil},
		"../data":                  {"data", nil},
		"../no/such/folder":        {"no/such/folder", nil},
		root + "/p/../data/":       {"data", nil},
		"cfg/local.toml":           {"etc/local.toml", []string{"p/cfg"}},
		"cfg/../local.toml":        {"local.toml", []string{"p/cfg"}},
		"chain/a/b":                {"etc/a/b", []string{"p/chain", "p/cfg"}},
		"dangling":                 {"p/sub/not-yet.toml", []string{"p/dangling"}},
		"abs/run/x.sock":           {"data/run/x.sock", []string{"p/abs"}},
		"up/data":                  {"data", []string{"p/up"}},
		"sub/../../data/./run//x/": {"data/run/x", nil},
	} {
		p, err := ownpath.Resolve(name)
		must(t, err)
		var links []string
		for _, l := range want.links {
			links = append(links, filepath.Join(root, l))
		}
		if p.String() != filepath.Join(root, want.at) || !slices.Equal(p.Links(), links) {
			t.Errorf("%s: got %s by %v, want %s by %v", name, p, p.Links(), want.at, want.links)
		}
	}
}

// A path that cannot be resolved is refused in a sentence with its name.
func TestUnresolvable(t *testing.T) {
	tree(t)
	for name, want := range map[string]string{
		"": "empty", "a\x00b": "NUL", "ring/x": "too many links", "../file/x": "not a folder",
	} {
		p, err := ownpath.Resolve(name)
		if err == nil || !strings.Contains(err.Error(), want) || !p.IsZero() {
			t.Errorf("%q: got %q, %v, want an error with %q", name, p, err, want)
		}
	}
}

// No path is relative, also not one decoded from another process; the zero value means absence.
func TestNeverRelative(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`""`, `"data"`, `"../data"`, `"/a/../b"`, `"/a/"`, `"/a\u0000b"`, `7`, `null`} {
		var p ownpath.Path
		if err := json.Unmarshal([]byte(text), &p); text != "null" && (err == nil || !p.IsZero()) {
			t.Errorf("%s is read as %q", text, p)
		}
		if text == "null" && !p.IsZero() {
			t.Errorf("null is read as %q", p)
		}
	}
	if text, err := json.Marshal([]ownpath.Path{{}}); err == nil {
		t.Errorf("the zero path is written as %s", text)
	}
	defer func() {
		if recover() == nil {
			t.Error("a path below no place was made")
		}
	}()
	_ = ownpath.Path{}.Join("run")
}

// For any name, the path is absolute, clean, and equal when it is resolved again.
func FuzzResolve(f *testing.F) {
	for _, seed := range []string{"data", "../x", "/", "//a/../..", "a/./b/", "/proc/self/root/etc", "a\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		p, err := ownpath.Resolve(name)
		if err != nil {
			return
		}
		if !filepath.IsAbs(p.String()) || filepath.Clean(p.String()) != p.String() {
			t.Fatalf("%q is resolved to %q", name, p)
		}
		if again, err := ownpath.Resolve(p.String()); err == nil && again.String() != p.String() &&
			!strings.HasPrefix(p.String(), "/proc") {
			t.Fatalf("%q is resolved to %q, and that to %q", name, p, again)
		}
	})
}
