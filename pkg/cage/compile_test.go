package cage_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/cage"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ownpath"
)

// plant creates a tree: a name with a final slash is a folder, "a -> b" a link, any other name a file.
func plant(t testing.TB, names ...string) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	for _, name := range names {
		link, target, isLink := strings.Cut(name, " -> ")
		at := filepath.Join(root, link)
		must(t, os.MkdirAll(filepath.Dir(at), 0o755))
		switch {
		case isLink:
			must(t, os.Symlink(target, at))
		case strings.HasSuffix(name, "/"):
			must(t, os.MkdirAll(at, 0o755))
		default:
			must(t, os.WriteFile(at, []byte("x\n"), 0o644))
		}
	}
	return root
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// own is a path of kaged's own.
func own(t testing.TB, path string) ownpath.Path {
	t.Helper()
	p, err := ownpath.Resolve(path)
	must(t, err)
	return p
}

// policy parses "ro path" and "rw path".
func policy(mounts ...string) *dsl.Cage {
	c := &dsl.Cage{Seccomp: "default", State: "ephemeral"}
	for _, m := range mounts {
		mode, path, _ := strings.Cut(m, " ")
		c.FS = append(c.FS, dsl.Mount{Mode: mode, Path: path})
	}
	return c
}

func compile(t testing.TB, root string, mounts ...string) *cage.View {
	t.Helper()
	v, err := cage.Compile(policy(mounts...), root)
	must(t, err)
	return v
}

// The deepest grant around a path decides, and of equal grants the last; a path outside all grants is invisible
// (T-PERM-03, -07).
func TestDeepestDecides(t *testing.T) {
	t.Parallel()
	root := plant(t, "src/gen/own/", "src2/", "docs/", "one", "two")
	v := compile(t, root, "rw ./src", "ro project:/src/gen/", "rw ./src/gen/own", "ro ./docs", "rw ./docs", "ro ./docs",
		"rw project:/one", "ro "+root+"/two")
	for name, want := range map[string]string{
		"src": "rw", "src/x": "rw", "src/gen": "r", "src/gen/x": "r", "src/gen/own/x": "rw", "src2": "", "docs/x": "r",
		".": "", "one": "rw", "one/x": "", "two": "r",
	} {
		at, got := filepath.Join(root, name), ""
		if v.Allows(at, false) {
			got = "r"
		}
		if v.Allows(at, true) {
			got += "w"
		}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if v.Allows("/usr/bin", false) || v.Allows(filepath.Dir(root), false) {
		t.Error("something outside is allowed")
	}
}

// A path that is missing, relative, a link or behind one, of another kind, or never grantable refuses the policy with
// the path's position; no path is dropped silently.
func TestRefusedPaths(t *testing.T) {
	t.Parallel()
	root := plant(t, "src/", "file", "link -> src", "dir/out -> /usr", "nowhere -> no/such", "data/db/")
	must(t, unix.Mkfifo(filepath.Join(root, "pipe"), 0o600))
	for path, want := range map[string]string{
		"./missing":              "There is nothing at ./missing",
		"project:/file/below":    "There is nothing at project:/file/below",
		"src":                    "write project:/src",
		"":                       "relative",
		"./../src":               "write the path without",
		"project:/a//b":          "write the path without",
		"project:/a/./b":         "write the path without",
		"./a\x00b":               "write the path without",
		"./link":                 root + "/link is a link; a cage grants real paths: write " + root + "/src",
		"./link/x":               "is a link",
		"./dir/out/bin":          root + "/dir/out is a link; a cage grants real paths: write /usr/bin",
		"./nowhere":              "leads nowhere",
		"/bin/sh":                "/bin is a link; a cage grants real paths: write /usr/bin/",
		"./pipe":                 "is a pipe; only files and folders can be granted",
		"/":                      "the whole file system",
		"/proc":                  "lies in /proc",
		"/proc/self/root/etc":    "lies in /proc",
		"/sys/kernel":            "lies in /sys",
		"/dev/shm":               "lies in /dev",
		"/run/user":              "lies in /run",
		"./data":                 "holds " + root + "/data/db",
		".":                      "holds " + root + "/data/db",
		"project:/data/db":       "belongs to kaged itself",
		"project:/data/db/inner": "belongs to kaged itself",
	} {
		p := policy("ro ./src", "ro "+path)
		_, err := cage.Compile(p, root, cage.Forbidden(own(t, root+"/data/db"), own(t, "/no/such/config")))
		f := fault.From(err)
		if err == nil || f.Code != fault.CagePolicyInvalid || f.Details["field"] != "cage.fs[1].path" ||
			!strings.Contains(f.Msg, want) {
			t.Errorf("%q: %v, want %q", path, err, want)
		}
		if !strings.HasPrefix(f.Msg, "cage.fs[1].path: ") {
			t.Errorf("%q: %v, want the field first", path, err)
		}
		p.FS[1].At = ".kaged/project.yaml:9:26"
		_, err = cage.Compile(p, root, cage.Forbidden(own(t, root+"/data/db"), own(t, "/no/such/config")))
		if at := fault.From(err); at.Details["field"] != "cage.fs[1].path" ||
			at.Msg != strings.Replace(f.Msg, "cage.fs[1].path", p.FS[1].At, 1) {
			t.Errorf("%q: %v, want %s with the place where it is written", path, err, f.Msg)
		}
	}
}

// A policy that grants a path of kaged's own is refused, whether the path was named relative, by a link, or by a link
// to a missing file. A policy that lets the agent replace such a link is refused too. A path of kaged's own that was
// never resolved refuses every policy.
func TestForbiddenHoweverNamed(t *testing.T) {
	root := plant(t, "p/src/", "p/data/", "p/cfg -> ../etc", "p/later -> src/later.toml", "etc/", "elsewhere/data/",
		"elsewhere/links/by -> ../data")
	t.Chdir(filepath.Join(root, "p"))
	for _, c := range []struct{ named, grant, want string }{
		{"data", "rw project:/", "holds " + root + "/p/data"},
		{"data", "ro project:/", "holds " + root + "/p/data"},
		{"./data/../data/", "ro ./data", "belongs to kaged itself"},
		{"not-yet/local.toml", "rw project:/", "holds " + root + "/p/not-yet/local.toml"},
		{"../etc", "ro " + "/ROOT/etc", "belongs to kaged itself"},
		{"cfg/local.toml", "ro /ROOT/etc", "holds " + root + "/etc/local.toml"},
		{
			"cfg/local.toml", "rw project:/", "holds " + root + "/p/cfg, a link by which kaged finds " + root +
				"/etc/local.toml",
		},
		{"cfg/local.toml", "ro project:/", ""},
		{"cfg/local.toml", "rw ./src", ""},
		{"later", "ro ./src", "holds " + root + "/p/src/later.toml"},
		{"later", "rw ./src", "holds " + root + "/p/src/later.toml"},
		{"/ROOT/elsewhere/links/by/run", "rw /ROOT/elsewhere/links", "a link by which kaged finds"},
		{"../elsewhere/links/by", "ro /ROOT/elsewhere/links", ""},
		{"../elsewhere", "rw project:/", ""},
	} {
		at := own(t, strings.ReplaceAll(c.named, "/ROOT", root))
		_, err := cage.Compile(policy(strings.ReplaceAll(c.grant, "/ROOT", root)), root+"/p", cage.Forbidden(at))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s, and kaged's %s: got %v, want %q", c.grant, c.named, err, c.want)
		}
	}
	if _, err := cage.Compile(policy("ro ./src"), root+"/p",
		cage.Forbidden(ownpath.Path{})); fault.CodeOf(err) != fault.Internal {
		t.Errorf("with a place that was not resolved: got %v, want internal", err)
	}
}

// The project's root may be a link; the view has the real path.
func TestRootByLink(t *testing.T) {
	t.Parallel()
	root := plant(t, "real/src/", "by -> real")
	v := compile(t, filepath.Join(root, "by"), "rw ./src")
	if v.Root != root+"/real" || !v.Allows(root+"/real/src", true) {
		t.Errorf("%+v", v)
	}
	for _, bad := range []string{"relative", filepath.Join(root, "no"), ""} {
		if _, err := cage.Compile(policy(), bad); fault.From(err).Details["field"] != "project_root" {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
