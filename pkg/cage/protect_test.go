package cage_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kaged.dev/pkg/cage"
	"kaged.dev/pkg/fault"
)

// added returns the paths of a view besides the policy's grants, relative to root: name and kind of protection.
func added(root string, v *cage.View) map[string]string {
	found := map[string]string{}
	for _, g := range v.Grants {
		how := ""
		switch {
		case g.Pinned:
			how = "pinned"
		case g.Missing && g.Dir:
			how = "missing folder"
		case g.Missing:
			how = "missing file"
		case g.Protected && g.Dir:
			how = "folder"
		case g.Protected:
			how = "file"
		default:
			continue
		}
		found[strings.TrimPrefix(g.Path, root+"/")] = how
	}
	return found
}

func expect(t *testing.T, got, want map[string]string) {
	t.Helper()
	if !maps.Equal(got, want) {
		for _, name := range slices.Sorted(maps.Keys(got)) {
			if got[name] != want[name] {
				t.Errorf("%s: %q, want %q", name, got[name], want[name])
			}
		}
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if got[name] == "" {
				t.Errorf("%s: nothing, want %q", name, want[name])
			}
		}
	}
}

// Files that make tools outside the cage run code stay read-only in a writable project, and missing
// ones get a harmless stub; the folders around them cannot be renamed away.
func TestProtected(t *testing.T) {
	t.Parallel()
	root := plant(t, ".kaged/project.yaml", ".git/HEAD", ".git/config", ".git/hooks/sample", ".git/objects/", ".git/refs/",
		".vscode/settings.json", ".envrc", "src/")
	v := compile(t, root, "rw .")
	expect(t, added(root, v), map[string]string{
		".kaged": "folder", ".vscode": "folder", ".envrc": "file", ".idea": "missing folder", ".claude": "missing folder",
		".agents": "missing folder",
		".cursor": "missing folder", ".devcontainer": "missing folder", ".codex": "missing folder",
		".gemini": "missing folder", ".githooks": "missing folder",
		".husky": "missing folder", ".helix": "missing folder", ".kiro": "missing folder", ".mise": "missing folder",
		".opencode": "missing folder",
		".windsurf": "missing folder", ".zed": "missing folder", ".git/modules": "missing folder",
		".git": "pinned", ".git/config": "file", ".git/hooks": "folder", ".git/config.worktree": "missing file",
		".git/commondir": "missing file",
	})
	for name, want := range map[string]bool{
		".git/config": false, ".git/hooks/pre-commit": false, ".git/HEAD": true, ".git/index": true,
		".kaged/project.yaml": false,
		".vscode/tasks.json":  false, ".envrc": false, ".idea/x": false, "src/x": true, ".mcp.json": true,
	} {
		if at := filepath.Join(root, name); v.Allows(at, true) != want || !v.Allows(at, false) {
			t.Errorf("%s: write %v, want %v", name, !want, want)
		}
	}
}

// Files that name the versions of programs are protected, and the files of mise's environments, in the spelling that is
// there.
func TestProtectedPatterns(t *testing.T) {
	t.Parallel()
	names := []string{
		".tool-versions", "rust-toolchain", "rust-toolchain.toml", "mise.prod.toml", ".mise.prod.local.toml",
		"MISE.Ci.toml", "mise/config.prod.toml", ".config/mise.ci.toml", ".miserc.toml", ".config/miserc.toml",
	}
	others := []string{"mise..toml", "mise.toml.md", "mise/other.prod.toml", ".config/other"}
	root := plant(t, slices.Concat(names, others)...)
	for _, policy := range [][]string{{"rw ."}, {"rw .", "rw ./.config"}, {"ro .", "rw ./.config", "rw ./mise"}} {
		v := compile(t, root, policy...)
		for i, name := range slices.Concat(names, others) {
			at := filepath.Join(root, name)
			if want := i >= len(names) && (policy[0] == "rw ." || filepath.Dir(name) != "."); v.Allows(at, true) != want {
				t.Errorf("%q: %s: write %v, want %v", policy, name, !want, want)
			}
			if i < len(names) && !slices.ContainsFunc(v.Found, func(f cage.Found) bool { return f.Path == at }) &&
				(policy[0] == "rw ." || filepath.Dir(name) != ".") {
				t.Errorf("%q: %s is not noted", policy, name)
			}
		}
	}
}

// The names of mise's local files are protected also in a folder that cannot be listed, in which patterns find nothing.
func TestProtectedInAFolderThatCannotBeListed(t *testing.T) {
	t.Parallel()
	names := []string{
		"mise.local.toml", ".mise.local.toml", ".rtx.local.toml", "mise/config.local.toml", ".config/mise.local.toml",
	}
	root := plant(t, names...)
	for _, dir := range []string{root + "/mise", root + "/.config", root} {
		must(t, os.Chmod(dir, 0o300))
		t.Cleanup(func() { must(t, os.Chmod(dir, 0o700)) })
	}
	v := compile(t, root, "rw .")
	for _, name := range names {
		if v.Allows(filepath.Join(root, name), true) {
			t.Errorf("%s can be written", name)
		}
	}
}

// A policy that names a protected path gets that path.
func TestProtectedNamed(t *testing.T) {
	t.Parallel()
	root := plant(t, ".kaged/prompts/", ".git/HEAD", ".git/config", ".git/hooks/sample", ".git/objects/", ".git/refs/")
	v := compile(t, root, "rw .", "rw ./.git/hooks", "rw ./.kaged/prompts")
	for name, want := range map[string]bool{
		".git/hooks/pre-commit": true, ".git/config": false, ".kaged/prompts/a.md": true, ".kaged/project.yaml": false,
	} {
		if v.Allows(filepath.Join(root, name), true) != want {
			t.Errorf("%s: write %v, want %v", name, !want, want)
		}
	}
	v = compile(t, root, "ro .", "rw ./.git")
	for name, want := range map[string]bool{
		".git/index": true, ".git/hooks/x": false, ".git/config": false, ".git": true,
	} {
		if v.Allows(filepath.Join(root, name), true) != want {
			t.Errorf("only .git is writable: %s: write %v, want %v", name, !want, want)
		}
	}
}

// An agent cannot create a repository outside an existing one, neither at the project's root nor at the root of a
// writable folder.
func TestNoRepositoryPlanted(t *testing.T) {
	t.Parallel()
	root := plant(t, "out/", "src/")
	expect(t, added(root, compile(t, root, "ro .", "rw ./out")), map[string]string{
		"out/.git": "missing folder", "out/.kaged": "missing folder",
	})
	expect(t, added(root, compile(t, root, "ro .")), map[string]string{})
}

// Stubs made by another cage are protected here too, and do not count as a repository or a worktree.
func TestStubsOfAnother(t *testing.T) {
	t.Parallel()
	root := plant(t, "src/", ".git/HEAD", ".git/config", ".git/objects/", ".git/refs/", "out/")
	before := compile(t, root, "rw .")
	want := slices.Clone(before.Grants)
	for i, g := range want {
		switch {
		case g.Missing && g.Dir:
			must(t, os.Mkdir(g.Path, 0o755))
		case g.Missing:
			must(t, os.WriteFile(g.Path, []byte(g.Stub), 0o644))
		}
		want[i].Missing, want[i].Stub = false, ""
	}
	if after := compile(t, root, "rw ."); !slices.Equal(want, after.Grants) {
		t.Errorf("%v\n%v", added(root, before), added(root, after))
	}
	must(t, os.Mkdir(root+"/out/.git", 0o755))
	expect(t, added(root, compile(t, root, "rw ./out")), map[string]string{
		"out/.git": "folder", "out/.kaged": "missing folder",
	})
}

// Repositories, projects, submodules and worktrees inside a writable folder are found, also those with their repository
// in another place.
func TestNestedRepositories(t *testing.T) {
	t.Parallel()
	root := plant(t,
		".git/HEAD", ".git/config", ".git/hooks/sample", ".git/objects/", ".git/refs/",
		".git/modules/third/party/HEAD", ".git/modules/third/party/config", ".git/modules/third/party/objects/",
		".git/modules/third/party/refs/", ".git/modules/third/party/hooks/sample",
		".git/worktrees/w/HEAD", ".git/worktrees/w/commondir", ".git/worktrees/w/gitdir",
		"libs/a/.git/HEAD", "libs/a/.git/config", "libs/a/.git/objects/", "libs/a/.git/refs/", "libs/a/.git/hooks/sample",
		"libs/a/.envrc", "libs/a/x",
		"team/b/.kaged/", "node_modules/m/.git/config", "fixtures/bare/HEAD", "fixtures/bare/config",
		"fixtures/bare/objects/", "fixtures/bare/refs/",
		"tree/.bare/HEAD", "tree/.bare/objects/", "tree/.bare/refs/", "tree/.bare/config", "tree/.bare/hooks/sample",
	)
	must(t, os.WriteFile(filepath.Join(root, "tree/.git"), []byte("gitdir: ./.bare\n"), 0o644))
	must(t, os.WriteFile(filepath.Join(root, "fixtures/bare/config"), []byte("[core]\nbare = true\n"), 0o644))
	got := added(root, compile(t, root, "rw ."))
	for name, want := range map[string]string{
		".git/modules/third/party/config": "file", ".git/modules/third/party/hooks": "folder", ".git/modules": "folder",
		".git/modules/third/party":   "pinned",
		".git/worktrees/w/commondir": "file", ".git/worktrees/w/config.worktree": "missing file",
		".git/worktrees/w": "pinned",
		"libs":             "pinned", "libs/a": "pinned", "libs/a/.git": "pinned", "libs/a/.git/config": "file",
		"libs/a/.envrc":  "file",
		"libs/a/.vscode": "",
		"team/b/.kaged":  "folder", "node_modules/m/.git/config": "", "fixtures/bare/config": "file",
		"fixtures/bare/commondir": "",
		"tree/.git":               "file", "tree/.bare": "pinned", "tree/.bare/config": "file", "tree/.bare/hooks": "folder",
		"tree/.bare/commondir": "missing file",
	} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
}

// A search of too many folders takes the nearest ones, and the view says that there are more.
func TestSearchIsBounded(t *testing.T) {
	t.Parallel()
	names := []string{"near/.git/HEAD", "near/.git/config", "a/b/c/d/e/.git/config"}
	for i := range 600 {
		names = append(names, fmt.Sprintf("a/b/%03d/", i))
	}
	root := plant(t, names...)
	v := compile(t, root, "rw .")
	got := added(root, v)
	if !v.Partial || got["near/.git/config"] != "file" || got["a/b/c/d/e/.git/config"] != "" {
		t.Errorf("partial %t, %v", v.Partial, got)
	}
	if v = compile(t, root, "rw ./near"); v.Partial {
		t.Error("a small folder is searched in part")
	}
	if !strings.Contains(described(compile(t, root, "rw .")), "not searched: ") {
		t.Error("it is not said")
	}
}

// A protected name that is a link refuses the policy: the link could be replaced, even if its
// target is protected.
func TestProtectedLink(t *testing.T) {
	t.Parallel()
	root := plant(t, "src/", ".envrc -> src")
	p := policy("ro ./src", "rw .")
	for i, at := range []string{"", "policy.yaml:3:22"} {
		p.FS[1].At = at
		_, err := cage.Compile(p, root)
		f := fault.From(err)
		if want := []string{"cage.fs", at}[i] + ": " + root + "/.envrc is a link"; f.Code != fault.CagePolicyInvalid ||
			!strings.HasPrefix(f.Msg, want) || f.Details["field"] != "cage.fs" {
			t.Error(err)
		}
	}
	compile(t, root, "ro .")
}

// A folder on the way to a read-only path is pinned, so that it cannot be renamed and made again.
func TestPinned(t *testing.T) {
	t.Parallel()
	root := plant(t, "a/b/secret", "a/b/c/")
	got := added(root, compile(t, root, "rw .", "ro ./a/b/secret", "rw ./a/b/c"))
	if got["a"] != "pinned" || got["a/b"] != "pinned" || got["a/b/c"] != "" {
		t.Errorf("%v", got)
	}
	root = plant(t, "a/b/c/secret", "x/y/.git/HEAD", "x/y/.git/config")
	got = added(root, compile(t, root, "rw .", "rw ./a/b", "ro ./a/b/c/secret", "rw ./x/y"))
	for _, name := range []string{"a", "a/b/c", "x", "x/y/.git"} {
		if got[name] != "pinned" {
			t.Errorf("%s lies on the way to a read-only path in nested writable grants: %q, want pinned", name, got[name])
		}
	}
}

// A protected name of several elements is refused, protected and reported in a grant that ends within it.
func TestGrantWithinAProtectedName(t *testing.T) {
	t.Parallel()
	root := plant(t, ".config/app/", ".jj/repo/store/")
	before := compile(t, root, "rw ./.config", "rw ./.jj/repo")
	for name, want := range map[string]bool{
		".config/git/config": true, ".config/Git": true, ".config/app/x": false, ".jj/repo/config.toml": true,
		".jj/repo/store/x": false,
	} {
		if _, got := before.Reserved(filepath.Join(root, name)); got != want {
			t.Errorf("%s: reserved %t, want %t", name, got, want)
		}
	}
	for _, name := range []string{".config/git/config", ".jj/repo/config.toml"} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
		must(t, os.WriteFile(filepath.Join(root, name), nil, 0o644))
	}
	after := compile(t, root, "rw ./.config", "rw ./.jj/repo")
	found := map[string]bool{}
	for _, f := range after.Since(before) {
		found[f.Path] = true
	}
	for _, name := range []string{".config/git", ".jj/repo/config.toml"} {
		if path := filepath.Join(root, name); !found[path] || after.Allows(path, true) {
			t.Errorf("%s: reported %t, can be written %t", name, found[path], after.Allows(path, true))
		}
	}
}
