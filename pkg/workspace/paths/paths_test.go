package paths_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/workspace/paths"
)

// project returns an empty folder and its space.
func project(t testing.TB, rules paths.Rules) (string, *paths.Space) {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root = filepath.Join(root, "project")
	must(t, os.Mkdir(root, 0o755))
	space, err := paths.Open(root, rules)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(space.Close)
	return root, space
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A root may have any name, also one that looks like the system's text for a deleted folder, and be
// A root that is opened by a relative name has an absolute path.
func TestARelativeRoot(t *testing.T) {
	t.Parallel()
	here, err := filepath.Abs(".")
	must(t, err)
	here, err = filepath.EvalSymlinks(here)
	must(t, err)
	root, err := paths.OpenRoot(".")
	must(t, err)
	defer root.Close()
	if root.Path() != here {
		t.Errorf("the root is %s, want %s", root.Path(), here)
	}
}

// reached through links on the way.
func TestOpenFindsTheRoot(t *testing.T) {
	t.Parallel()
	root, _ := project(t, paths.Rules{})
	for _, name := range []string{"plain", "was here (deleted)", "(unreachable)", "new\nline", "b\xff"} {
		real := filepath.Join(root, name, "in")
		must(t, os.MkdirAll(real, 0o755))
		must(t, os.Symlink(name, filepath.Join(root, "to-"+name)))
		for _, given := range []string{
			real, filepath.Join(root, "to-"+name, "in"), filepath.Join(root, "plain", "..", name, "in") + "/",
		} {
			space, err := paths.Open(given, paths.Rules{})
			must(t, err)
			if space.Root() != real {
				t.Errorf("%q is at %q", given, space.Root())
			}
			space.Close()
		}
	}
}

// A root must be an absolute path of a folder; one given through a link is known by both names.
func TestOpen(t *testing.T) {
	t.Parallel()
	root, _ := project(t, paths.Rules{})
	file := filepath.Join(root, "file")
	must(t, os.WriteFile(file, nil, 0o644))
	for _, bad := range []string{"", ".", "relative", file, filepath.Join(root, "none")} {
		if _, err := paths.Open(bad, paths.Rules{}); !errors.Is(err, fault.NotFound) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	link := filepath.Join(filepath.Dir(root), "link")
	must(t, os.Symlink(root, link))
	space, err := paths.Open(link, paths.Rules{})
	must(t, err)
	defer space.Close()
	for _, name := range []string{"file", file, filepath.Join(link, "file")} {
		p, err := space.Resolve("path", name)
		if err != nil || p.Abs() != file || p.Show != "./file" || !p.Exists {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	if space.Root() != root {
		t.Errorf("root %s", space.Root())
	}
}

// Where projects have a folder of their own, one outside of it is missing, also behind a link.
func TestWithin(t *testing.T) {
	t.Parallel()
	root, _ := project(t, paths.Rules{})
	inside := filepath.Join(root, "projects", "a")
	must(t, os.MkdirAll(inside, 0o755))
	must(t, os.MkdirAll(filepath.Join(root, "projects-too"), 0o755))
	must(t, os.Symlink(root, filepath.Join(root, "projects", "link")))
	rules := paths.Rules{Within: filepath.Join(root, "projects")}
	space, err := paths.Open(inside, rules)
	must(t, err)
	space.Close()
	for _, bad := range []string{
		root, rules.Within, filepath.Join(root, "projects-too"), filepath.Join(rules.Within, "link"),
		filepath.Join(rules.Within, "..", "projects-too"), "/etc",
	} {
		if _, err := paths.Open(bad, rules); !errors.Is(err, fault.NotFound) {
			t.Errorf("%q: got %v, want not_found", bad, err)
		}
	}
}

// Results name a place as it was asked for, as long as that text stays in the project.
func TestShow(t *testing.T) {
	t.Parallel()
	root, space := project(t, paths.Rules{})
	must(t, os.MkdirAll(filepath.Join(root, "a/b"), 0o755))
	must(t, os.Symlink("a/b", filepath.Join(root, "l")))
	for name, want := range map[string]string{
		".": "./", "": "", "a": "./a", "./a//b/.": "./a/b", "a/../a/b": "./a/b", "l": "./l", "l/..": "./a",
		"l/../new": "./a/new", "new/deep": "./new/deep",
		root: "./", root + "/l": "./l", "../project/a": "./a",
	} {
		p, err := space.Resolve("path", name)
		if want == "" {
			if !errors.Is(err, fault.InvalidParams) {
				t.Errorf("%q: %v", name, err)
			}
			continue
		}
		if err != nil || p.Show != want {
			t.Errorf("%q: shown as %q, %v, want %q", name, p.Show, err, want)
		}
	}
}

// Wherever links lead, a path resolves to where the system finds it, or is refused if that is outside.
func TestResolveEqualsTheSystem(t *testing.T) {
	t.Parallel()
	root, space := project(t, paths.Rules{})
	for _, dir := range []string{"a/b/c", "d"} {
		must(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	must(t, os.WriteFile(filepath.Join(root, "a/f"), nil, 0o644))
	for name, target := range map[string]string{
		"up": "..", "a/up": "..", "self": ".", "abs": root + "/a", "a/b/deep": "../../d", "out": "/tmp", "a/chain": "b/deep",
		"loop": "loop2", "loop2": "loop",
		"dangling": "gone/x", "a/b/c/root": root, "d/above": "../..",
	} {
		must(t, os.Symlink(target, filepath.Join(root, name)))
	}
	part := rapid.SampledFrom(
		[]string{
			"a",
			"b",
			"c",
			"d",
			"f",
			"up",
			"self",
			"abs",
			"deep",
			"out",
			"chain",
			"loop",
			"dangling",
			"root",
			"above",
			"..",
			".",
			"",
			"project",
			"new",
		},
	)
	rapid.Check(t, func(t *rapid.T) {
		name := strings.Join(rapid.SliceOfN(part, 1, 7).Draw(t, "parts"), "/")
		if rapid.Bool().Draw(t, "absolute") {
			name = root + "/" + name
		}
		if name == "" {
			return // refused as empty, where the system sees the root
		}
		p, err := space.Resolve("path", name)
		full := name
		if !filepath.IsAbs(name) {
			full = root + "/" + name
		}
		info, statErr := os.Stat(full)
		if statErr != nil {
			// A missing path may resolve or not, but never to the outside.
			if err == nil && !paths.Below(p.Abs(), root) {
				t.Fatalf("%s resolves to %s", name, p.Abs())
			}
			return
		}
		real, evalErr := filepath.EvalSymlinks(full)
		if evalErr != nil {
			t.Fatalf("%s: %v", full, evalErr)
		}
		inside := paths.Below(real, root)
		switch {
		case inside && (err != nil || p.Abs() != real || !p.Exists || p.Mode.Type() != info.Mode().Type()):
			t.Fatalf("%s is %s, resolved to %+v, %v", name, real, p, err)
		case !inside && !errors.Is(err, fault.InvalidParams):
			t.Fatalf("%s leads to %s and resolved to %+v, %v", name, real, p, err)
		}
	})
}

// Below compares components, not letters (T-PERM-07).
func TestBelow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		p, dir string
		want   bool
	}{
		{"/a", "/a", true},
		{"/a/b", "/a", true},
		{"/ab", "/a", false},
		{"/a", "/a/b", false},
		{"/a", "/", true},
		{"/", "/", true},
	} {
		if got := paths.Below(c.p, c.dir); got != c.want {
			t.Errorf("%s below %s: %v", c.p, c.dir, got)
		}
	}
}

// Any path resolves to the inside or is refused, and opening it neither waits nor leaves.
func FuzzResolve(f *testing.F) {
	for _, seed := range []string{
		"a", "../..", "l/../../x", "/etc/passwd", "a\x00", "", "./././a", "l/l/l", strings.Repeat("../", 50) + "etc", "\xff",
		"a/\n/b", "~", "//",
	} {
		f.Add(seed)
	}
	root, space := project(f, paths.Rules{Denied: []string{"secret", "**/*.key"}})
	must(f, os.MkdirAll(filepath.Join(root, "a"), 0o755))
	must(f, os.Symlink("..", filepath.Join(root, "a/l")))
	must(f, os.Symlink("/", filepath.Join(root, "l")))
	f.Fuzz(func(t *testing.T, name string) {
		p, err := space.Resolve("path", name)
		if err != nil {
			if !errors.Is(err, fault.InvalidParams) && !errors.Is(err, fault.CapabilityDenied) {
				t.Fatalf("%q: %v", name, err)
			}
			return
		}
		if !paths.Below(p.Abs(), root) || space.Denied(p.Abs()) {
			t.Fatalf("%q resolves to %s", name, p.Abs())
		}
		if file, _, err := p.Open(); err == nil {
			file.Close()
		}
	})
}
