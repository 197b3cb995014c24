package cage_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"kaged.dev/pkg/cage"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
)

// forest is a tree of grantable paths with every path that has a meaning for a policy.
var forest = []string{
	"a/b/c/f", "a/b/d/", "a/e", "b/", "f", ".envrc", "a/.vscode/", "a/b/.git/HEAD", "a/b/.git/config", "a/b/.git/hooks/x",
	"a/b/.git/objects/",
	"a/b/.git/refs/", "a/b/.git/modules/m/HEAD", "a/b/.git/modules/m/objects/", "a/b/.git/modules/m/refs/",
	"a/b/.git/modules/m/config",
	"bare/HEAD", "bare/config", "bare/objects/", "bare/refs/", "bare/worktrees/w/HEAD", "bare/worktrees/w/commondir",
	".config/git/config", "sub/.kaged/project.yaml",
	"out/x", "out/y/",
	"a/b/.git/worktrees/w/HEAD", "a/b/.git/worktrees/w/commondir", "a/w/.git", "a/w/.envrc", "a/w/scripts/x",
	"a/node_modules/m/.git/HEAD", "a/node_modules/m/.git/config", "a/node_modules/m/.git/objects/",
	"a/node_modules/m/.git/refs/",
	"a/both/.git/config", "a/both/HEAD", "a/both/objects/", "a/both/refs/", "a/both/.idea/",
	"a/.GIT/config", "a/.Vscode/x",
	".git/config", "a/scripts/hooks/pre-commit", "a/tools/watch", "a/b/scripts/x", "inc/shared",
	"a/store/HEAD", "a/store/objects/", "a/store/refs/", "a/store/worktrees/w/commondir", "a/sibling/.git",
	"out/store/objects/",
	"out/store/hooks/x", "a/lead/.git", "lead/.git", "b/.git", "b/part/refs/", "lead/gone/.git",
	"x/w/.git/HEAD", "x/w/.git/objects/", "x/w/.git/refs/", "x/hooks/pre-commit", "x/tools/run",
	"a/bare/HEAD", "a/bare/objects/", "a/bare/refs/", "a/bare/hooks/", "a/past/",
}

// contents are the files of the forest that lead somewhere.
var contents = map[string]string{
	".git/config": "[core]\nhooksPath = a/scripts/hooks\nfsmonitor = a/tools/watch\n" +
		"[include]\npath = ../inc/shared\n",
	"a/b/.git/config":                "[core]\nhooksPath = scripts\n",
	"a/b/.git/worktrees/w/commondir": "../..\n",
	"a/w/.git":                       "gitdir: ../b/.git/worktrees/w\n",
	"a/sibling/.git":                 "gitdir: ../store\n",
	"a/store/config":                 "[core]\nrepositoryformatversion = 0\nbare = false\n",
	"a/lead/.git":                    "gitdir: ../../out/store\n",
	"out/store/config":               "[core]\nrepositoryformatversion = 0\nbare = false\n",
	"lead/.git":                      "gitdir: ../a/store/worktrees/w\n",
	"b/.git":                         "gitdir: part\n",
	"lead/gone/.git":                 "gitdir: ../../a/b/.git/worktrees/gone\n",
	"x/w/.git/config": "[core]\nrepositoryformatversion = 0\nhooksPath = ../../a/past/../../x/hooks\n" +
		"fsmonitor = ../tools/run\n",
	"a/bare/config": "[core]\nrepositoryformatversion = 0\nbare = true\n",
}

// For random policies, a child's view allows no more than its parent's: over four levels, for both spellings of paths,
// protected ones included.
func TestChildNeverExceedsParent(t *testing.T) {
	t.Parallel()
	top := plant(t, forest...)
	for name, text := range contents {
		must(t, os.WriteFile(filepath.Join(top, name), []byte(text), 0o644))
	}
	root := filepath.Join(top, "a")
	var places []string
	must(t, filepath.WalkDir(top, func(path string, _ fs.DirEntry, err error) error {
		places = append(places, path)
		return err
	}))
	probes := slices.Clone(places)
	for _, place := range places {
		for _, name := range []string{
			"new", ".git", ".git/config", "hooks/new", "config", "commondir", ".vscode/new", ".envrc", "git/config",
		} {
			probes = append(probes, filepath.Join(place, name))
		}
	}
	memories := t.TempDir()
	var made atomic.Int64
	allowed, forbidden := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		parent := somePolicy(t, "root", root, places)
		if rapid.IntRange(0, 5).Draw(t, "git") == 0 {
			parent.Git = dsl.GitReadOnly
		}
		// Children are compiled with what their ancestors' compilations found, as in a daemon.
		remember := cage.Remember(cage.NewMemory(filepath.Join(memories, strconv.FormatInt(made.Add(1), 10))))
		above, err := cage.Compile(parent, root, remember)
		if err != nil && parent.GitReadOnly() {
			return // it grants a part of a repository
		} else if err != nil {
			t.Fatal(err)
		}
		for level := range 3 {
			child := fitting(t, parent, somePolicy(t, "level "+strconv.Itoa(level), root, places))
			below, err := cage.Compile(child, root, remember)
			if err != nil && child.GitReadOnly() {
				return
			} else if err != nil {
				t.Fatal(err)
			}
			for _, p := range probes {
				for _, write := range []bool{false, true} {
					switch {
					case !below.Allows(p, write):
						forbidden++
					case !above.Allows(p, write):
						t.Fatalf("%s: write %t is allowed to the child\n%s\nand not to the parent\n%s", p, write, shown(child),
							shown(parent))
					default:
						allowed++
					}
				}
			}
			parent, above = child, below
		}
	})
	if allowed == 0 || forbidden == 0 {
		t.Errorf("%d allowed and %d forbidden probes prove nothing", allowed, forbidden)
	}
}

func shown(c *dsl.Cage) string {
	var b strings.Builder
	for _, m := range c.FS {
		b.WriteString(m.Mode + " " + m.Path + "\n")
	}
	b.WriteString("read-only")
	for _, place := range c.ReadOnly {
		b.WriteString(" " + place.Path)
	}
	return b.String()
}

func viewOf(t *rapid.T, c *dsl.Cage, root string) *cage.View {
	v, err := cage.Compile(c, root)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// somePolicy grants some of the paths, each in one of its spellings.
func somePolicy(t *rapid.T, label, root string, places []string) *dsl.Cage {
	c := &dsl.Cage{Seccomp: "default", State: "ephemeral"}
	for range rapid.IntRange(1, 6).Draw(t, label) {
		m := dsl.Mount{
			Mode: rapid.SampledFrom([]string{"rw", "ro", "rw"}).Draw(t, "mode"), Path: rapid.SampledFrom(places).Draw(t, "path"),
		}
		if rel, err := filepath.Rel(root, m.Path); err == nil && filepath.IsLocal(rel) && rapid.Bool().Draw(t, "in project") {
			m.Path = "project:/" + rel
			if rel == "." {
				m.Path = rapid.SampledFrom([]string{"project:/", "./", "."}).Draw(t, "root")
			}
		}
		c.FS = append(c.FS, m)
	}
	return c
}

// fitting returns child narrowed below parent: without its excess, and with the parent's values where they exceed.
func fitting(t *rapid.T, parent, child *dsl.Cage) *dsl.Cage {
	for _, m := range parent.FS {
		if rapid.Bool().Draw(t, "as above") {
			child.FS = append(child.FS, m)
		}
	}
	for {
		narrowed, excess := dsl.Narrow(parent, child)
		if len(excess) == 0 {
			return narrowed
		}
		i, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(excess[0].Field, "fs["), "]"))
		if err != nil {
			t.Fatal(excess[0])
		}
		child.FS = slices.Delete(child.FS, i, i+1)
	}
}

// Paths read-only in an ancestor stay read-only in its descendants, in both spellings. A path named by the child's own
// policy gets that grant and no more.
func TestNarrowAcrossSpellings(t *testing.T) {
	t.Parallel()
	root := plant(t, "src/secret/pub/", "src/x", "lib/")
	parent := policy("rw ./src", "ro "+root+"/src/secret", "ro ./lib")
	parent.FS[1].At = ".kaged/project.yaml:7:12"
	child, excess := dsl.Narrow(parent, policy("rw ./src"))
	if len(excess) > 0 {
		t.Fatal(excess)
	}
	v, err := cage.Compile(child, root)
	must(t, err)
	for name, want := range map[string]bool{"src/x": true, "src/secret": false, "src/secret/pub": false} {
		if v.Allows(filepath.Join(root, name), true) != want {
			t.Errorf("%s: write %t, want %t", name, !want, want)
		}
	}
	if v.Allows(root+"/lib", false) {
		t.Error("the child reads what it did not ask for")
	}
	grandchild, _ := dsl.Narrow(child, policy("rw ./src"))
	if v, err = cage.Compile(grandchild, root); err != nil || v.Allows(root+"/src/secret", true) {
		t.Errorf("two levels down: %v", err)
	}
	must(t, os.RemoveAll(root+"/src/secret"))
	for _, c := range []*dsl.Cage{child, grandchild, dsl.CageFromProto(grandchild.Proto())} {
		_, err = cage.Compile(c, root)
		if f := fault.From(err); err == nil || !strings.HasPrefix(f.Msg, ".kaged/project.yaml:7:12: There is nothing at ") ||
			f.Details["field"] != "cage.read_only[0]" {
			t.Errorf("a removed path, which could be created again, does not refuse the policy at its position: %v", err)
		}
	}
}

// A path that a policy grants in both spellings is writable if one of the grants is compared with the ancestor's
// read-only folder and allowed to be: its child, with that grant alone, may write it too.
func TestNarrowOfBothSpellings(t *testing.T) {
	t.Parallel()
	root := plant(t, "src/pub/")
	above := policy("rw .", "ro "+root+"/src", "rw "+root+"/src/pub")
	for _, fs := range [][]string{
		{"rw " + root + "/src/pub", "rw ./src/pub"}, {"rw ./src/pub", "rw " + root + "/src/pub"}, {"rw " + root + "/src/pub"},
	} {
		child, excess := dsl.Narrow(above, policy(fs...))
		if len(excess) > 0 {
			t.Fatal(excess)
		}
		v, err := cage.Compile(child, root)
		must(t, err)
		if !v.Allows(root+"/src/pub/new", true) {
			t.Errorf("%q: the path is read-only", fs)
		}
	}
	child, _ := dsl.Narrow(above, policy("rw ./src"))
	v, err := cage.Compile(child, root)
	must(t, err)
	if v.Allows(root+"/src/pub/new", true) {
		t.Error("a folder that the agent above may only read is writable by its other spelling")
	}
}

// Without protected names, the access of a policy as it is compared for an approval is that of its view, in both
// spellings and below ancestors.
func TestAccessIsThatOfTheView(t *testing.T) {
	t.Parallel()
	top := plant(t, "a/b/c/f", "a/b/d/", "a/e", "b/c/", "f")
	root := filepath.Join(top, "a")
	var places []string
	must(t, filepath.WalkDir(top, func(path string, _ fs.DirEntry, err error) error {
		places = append(places, path)
		return err
	}))
	rapid.Check(t, func(t *rapid.T) {
		policy := somePolicy(t, "root", root, places)
		for level := range 3 {
			v := viewOf(t, policy, root)
			for _, p := range places {
				want := dsl.NoAccess
				switch {
				case v.Allows(p, true):
					want = dsl.WriteAccess
				case v.Allows(p, false):
					want = dsl.ReadAccess
				}
				if got := policy.Access(root, p); got != want {
					t.Fatalf("%s: %q, the view has %q\n%s", p, got, want, shown(policy))
				}
			}
			policy = fitting(t, policy, somePolicy(t, "level "+strconv.Itoa(level), root, places))
		}
	})
}

// No policy makes a .git file writable, which leads git to a repository, although a child may be granted a .git folder.
func TestNarrowOfAGitFile(t *testing.T) {
	t.Parallel()
	root := plant(t, "w/.git", "r/.git/HEAD", "r/.git/objects/", "r/.git/refs/", "r/.git/config")
	child, excess := dsl.Narrow(policy("rw ."), policy("rw ./w/.git", "rw ./r/.git"))
	if len(excess) > 0 {
		t.Fatal(excess)
	}
	v, err := cage.Compile(child, root)
	must(t, err)
	for name, want := range map[string]bool{"w/.git": false, "r/.git/index": true, "r/.git/config": false} {
		if v.Allows(filepath.Join(root, name), true) != want {
			t.Errorf("%s: write %t, want %t", name, !want, want)
		}
	}
}
