package sandboxsupervisor_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"kaged.dev/pkg/cage"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

// tree is a project of folders, files and links for a property test.
type tree struct {
	root    string
	folders []string // the project's root first
	files   []string
	links   []string
	outside string // a folder beside the project with a secret in it
}

// drawTree makes a tree in the empty folder dir.
func drawTree(t *rapid.T, dir string) *tree {
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	x := &tree{root: filepath.Join(dir, "project"), outside: filepath.Join(dir, "outside")}
	must(os.Mkdir(x.root, 0o755))
	must(os.Mkdir(x.outside, 0o755))
	must(os.WriteFile(filepath.Join(x.outside, "secret"), []byte("secret"), 0o644))
	x.folders = []string{x.root}
	name := rapid.SampledFrom([]string{"a", "b", "c", "d", ".git", ".kaged", "hooks", "config", "e f", "ü"})
	for range rapid.IntRange(2, 14).Draw(t, "entries") {
		path := filepath.Join(rapid.SampledFrom(x.folders).Draw(t, "in"), name.Draw(t, "name"))
		if _, err := os.Lstat(path); err == nil {
			continue
		}
		switch rapid.SampledFrom([]string{"folder", "folder", "file", "file", "link"}).Draw(t, "kind") {
		case "folder":
			must(os.Mkdir(path, 0o755))
			x.folders = append(x.folders, path)
		case "file":
			must(os.WriteFile(path, []byte("text"), 0o644))
			x.files = append(x.files, path)
		case "link":
			target := rapid.SampledFrom(slices.Concat(
				[]string{
					x.outside,
					filepath.Join(x.outside, "secret"),
					filepath.Join(x.root, "missing"),
					path,
					"/",
				},
				x.folders,
				x.files,
				x.links,
			)).Draw(t, "target")
			if rapid.Bool().Draw(t, "relative") {
				rel, err := filepath.Rel(filepath.Dir(path), target)
				must(err)
				target = rel
			}
			must(os.Symlink(target, path))
			x.links = append(x.links, path)
		}
	}
	return x
}

// drawPolicy makes a policy from a tree's paths, links included.
func (x *tree) drawPolicy(t *rapid.T, name string) *dsl.Cage {
	policy := &dsl.Cage{Seccomp: "default", State: "ephemeral"}
	for range rapid.IntRange(1, 4).Draw(t, name+" mounts") {
		path := rapid.SampledFrom(slices.Concat(x.folders, x.folders, x.files, x.links)).Draw(t, name+" path")
		rel, err := filepath.Rel(x.root, path)
		if err != nil {
			t.Fatal(err)
		}
		switch rapid.IntRange(0, 2).Draw(t, name+" written as") {
		case 0:
			path = "./" + rel
		case 1:
			path = "project:/" + strings.TrimPrefix(rel, ".")
		}
		policy.FS = append(
			policy.FS,
			dsl.Mount{Mode: rapid.SampledFrom([]string{"ro", "rw"}).Draw(t, name+" mode"), Path: path},
		)
	}
	return policy
}

// paths are the tested paths: existing and missing ones.
func (x *tree) paths() []string {
	list := slices.Concat(
		x.folders,
		x.files,
		x.links,
		[]string{x.outside, filepath.Join(x.outside, "secret"), filepath.Dir(x.root)},
	)
	for _, dir := range x.folders {
		for _, name := range []string{"missing", ".git/hooks", ".git/config", "../" + filepath.Base(dir)} {
			list = append(list, dir+"/"+name)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// reached is the access of a program in a cage: by path whether it could read and write, and the lists of folders.
type reached struct {
	read, write map[string]bool
	listed      map[string][]string
}

// reach runs the probe in a cage of the policy; refused means that the cage cannot be made.
func (x *tree) reach(
	t *rapid.T,
	client sandboxsupervisorv1.SandboxServiceClient,
	probe string,
	policy *dsl.Cage,
) (r reached, refused error) {
	r = reached{map[string]bool{}, map[string]bool{}, map[string][]string{}}
	granted := *policy
	granted.FS = append(slices.Clone(policy.FS), dsl.Mount{Mode: "ro", Path: probe})
	exit, err := caged(client, &sandboxsupervisorv1.ExecStart{
		Owner: &sandboxsupervisorv1.Owner{
			SessionId: "session",
		},
		Argv: append([]string{probe, "reach"}, x.paths()...), Cwd: "/",
		Cage: granted.Proto(), ProjectRoot: x.root,
	}, func(text []byte) {
		line := string(text)
		if rest, ok := strings.CutPrefix(line, "in "); ok {
			for _, dir := range x.paths() {
				if name, ok := strings.CutPrefix(rest, dir+" "); ok && !strings.Contains(name, "/") {
					r.listed[dir] = append(r.listed[dir], name)
				}
			}
			return
		}
		r.read[line[3:]], r.write[line[3:]] = line[0] == 'r', line[1] == 'w'
	})
	if errors.Is(err, fault.CagePolicyInvalid) {
		return r, err
	}
	if err != nil || exit.GetExitCode() != 0 || len(r.read) != len(x.paths()) {
		t.Fatalf("the probe ended with %v, %v after %d of %d paths", exit, err, len(r.read), len(x.paths()))
	}
	return r, nil
}

// plain reports whether a path contains no link.
func plain(path string) bool {
	real, err := filepath.EvalSymlinks(path)
	return err == nil && real == filepath.Clean(path)
}

// leads reports whether a folder is on the path to a grant. Such a folder exists in the cage and shows only that path.
func leads(view *cage.View, dir string) bool {
	return slices.ContainsFunc(view.Grants, func(g cage.Grant) bool { return cage.Below(g.Path, dir) })
}

// For any tree and policy, a program in the cage reads and writes exactly the paths that the view allows, and the tools
// use the same view. If no cage can be made, there is no view. No path outside can be read, written or seen.
func TestCageIsItsView(t *testing.T) {
	t.Parallel()
	client := serve(t, nil)
	probe := filepath.Join(place(t, 0), "probe")
	rapid.Check(t, func(t *rapid.T) {
		dir := scratch(t)
		defer os.RemoveAll(dir)
		x := drawTree(t, dir)
		policy := x.drawPolicy(t, "cage")
		view, invalid := cage.Compile(policy, x.root)
		r, refused := x.reach(t, client, probe, policy)
		if (invalid == nil) != (refused == nil) {
			t.Fatalf("the view: %v; the cage: %v", invalid, refused)
		}
		if refused != nil {
			return
		}
		for _, path := range x.paths() {
			real, err := filepath.EvalSymlinks(path)
			if err != nil {
				real = filepath.Clean(path)
			}
			info, err := os.Stat(real)
			there, folder := err == nil, err == nil && info.IsDir()
			inside := real
			if folder {
				inside = filepath.Join(real, ".reach")
			}
			mayRead, mayWrite := there && view.Allows(real, false), there && view.Allows(inside, true)
			if folder && !mayRead && r.read[path] {
				if !leads(view, real) && real != "/" {
					t.Errorf("%s can be listed, and leads nowhere", path)
				}
				for _, name := range r.listed[path] {
					if in := filepath.Join(real, name); real != "/" && !view.Allows(in, false) && !leads(view, in) {
						t.Errorf("%s is seen in %s", name, path)
					}
				}
			} else if r.read[path] && !mayRead && there {
				t.Errorf("%s can be read against the view", path)
			}
			if r.write[path] && !mayWrite {
				t.Errorf("%s can be written against the view", path)
			}
			// A link may lead to a visible path through hidden folders.
			if !plain(path) {
				continue
			}
			if mayRead && !r.read[path] || mayWrite && !r.write[path] {
				t.Errorf(
					"%s: the view allows reading %v and writing %v, the cage %v and %v",
					path,
					mayRead,
					mayWrite,
					r.read[path],
					r.write[path],
				)
			}
		}
		if t.Failed() {
			t.Logf("policy %+v, view %+v", policy.FS, view.Grants)
		}
	})
}

// A child's cage, if it is permitted, never reaches a path outside its parent's.
func TestChildCageNeverExceeds(t *testing.T) {
	t.Parallel()
	client := serve(t, nil)
	probe := filepath.Join(place(t, 0), "probe")
	rapid.Check(t, func(t *rapid.T) {
		dir := scratch(t)
		defer os.RemoveAll(dir)
		x := drawTree(t, dir)
		parent := x.drawPolicy(t, "parent")
		child, excess := dsl.Narrow(parent, x.drawPolicy(t, "child"))
		if len(excess) > 0 {
			return
		}
		above, refused := x.reach(t, client, probe, parent)
		if refused != nil {
			return
		}
		below, refused := x.reach(t, client, probe, child)
		if refused != nil {
			return
		}
		for _, path := range x.paths() {
			// An empty .git is not a repository, and is read-only in the parent's cage. A child that names it may initialise it,
			// also through a link; its hooks and configuration are read-only.
			real, err := filepath.EvalSymlinks(path)
			if err == nil && filepath.Base(real) == ".git" && above.read[path] &&
				slices.ContainsFunc(child.FS, func(m dsl.Mount) bool { return filepath.Base(m.Path) == ".git" }) {
				continue
			}
			_, missing := os.Lstat(path) // a missing path that can be read is a stub
			if below.read[path] && !above.read[path] && missing == nil || below.write[path] && !above.write[path] {
				t.Errorf(
					"%s: the child reads %v and writes %v, the parent %v and %v",
					path,
					below.read[path],
					below.write[path],
					above.read[path],
					above.write[path],
				)
			}
			for _, name := range below.listed[path] {
				// Otherwise it is a stub.
				if _, err := os.Lstat(filepath.Join(path, name)); err == nil && !slices.Contains(above.listed[path], name) {
					t.Errorf("the child sees %s in %s", name, path)
				}
			}
		}
		if t.Failed() {
			t.Logf("parent %+v, child %+v", parent.FS, child)
		}
	})
}

// scratch returns a new folder, without links.
func scratch(t *rapid.T) string {
	dir, err := os.MkdirTemp("", "kaged-property-")
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		t.Fatal(fmt.Errorf("a folder: %w", err))
	}
	return dir
}
