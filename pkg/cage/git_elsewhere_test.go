package cage_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kaged.dev/pkg/cage"
	"kaged.dev/pkg/dsl"
)

// store are the parts of a repository made by git init --separate-git-dir, and its configuration.
func store(dir string) []string { return append(bare(dir), dir+"index") }

const storeConfig = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n"

// write writes files below root.
func write(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
		must(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o644))
	}
}

// A store in a writable folder is protected, wherever the .git file is that leads to it, for a parent and for a child
// with the store alone, and after a cage has removed what it may of the store.
func TestStoreOfARepositoryElsewhere(t *testing.T) {
	t.Parallel()
	for name, grants := range map[string][]string{
		"all": {"rw ."}, "beside": {"rw ./store"}, "read-only": {"ro ./w", "rw ./store"}, "inside": {"ro .", "rw ./store"},
	} {
		for _, broken := range []bool{false, true} {
			root := plant(t, store("store/")...)
			write(t, root, map[string]string{"w/.git": "gitdir: ../store\n", "store/config": storeConfig})
			if broken {
				must(t, os.RemoveAll(root+"/store/HEAD"))
				must(t, os.RemoveAll(root+"/store/refs"))
			}
			parent := policy(grants...)
			child, excess := dsl.Narrow(parent, policy("rw ./store"))
			if len(excess) > 0 {
				t.Fatal(excess)
			}
			deep, _ := dsl.Narrow(parent, policy("rw ./store/config", "rw ./store/objects"))
			for _, p := range []*dsl.Cage{parent, child, deep} {
				v, err := cage.Compile(p, root)
				must(t, err)
				for _, part := range []string{
					"config", "hooks/post-checkout", "config.worktree", "commondir", "modules/m/config",
				} {
					if v.Allows(filepath.Join(root, "store", part), true) {
						t.Errorf("%s, broken %t: %s can be written with\n%s", name, broken, part, shown(p))
					}
				}
				if !v.Allows(root+"/store/objects/x", true) {
					t.Errorf("%s: the rest of the store cannot be written", name)
				}
			}
		}
	}
}

// What a store names relative to its work tree is protected, if the work tree cannot be written or is seen by the
// parent alone.
func TestNamedByARepositoryElsewhere(t *testing.T) {
	t.Parallel()
	root := plant(t, append(store("w/.git/"), "hooks/pre-commit", "tools/watch")...)
	write(t, root, map[string]string{
		"w/.git/config": "[core]\nrepositoryformatversion = 0\nhooksPath = ../hooks\nfsmonitor = ../tools/watch\n",
	})
	for name, grants := range map[string][]string{
		"of the project": {"rw ./hooks", "rw ./tools"}, "read-only": {"ro ./w", "rw ./hooks", "rw ./tools"},
	} {
		v := compile(t, root, grants...)
		for _, path := range []string{"hooks/pre-commit", "hooks/post-commit", "tools/watch"} {
			if v.Allows(filepath.Join(root, path), true) {
				t.Errorf("%s: %s can be written", name, path)
			}
		}
	}
	outside := t.TempDir() // the project of the grants, in which no search comes to the repository
	memory := cage.NewMemory(t.TempDir())
	parent := policy("rw " + root)
	child, _ := dsl.Narrow(parent, policy("rw "+root+"/hooks"))
	for _, p := range []*dsl.Cage{parent, child} {
		v, err := cage.Compile(p, outside, cage.Remember(memory))
		must(t, err)
		if v.Allows(root+"/hooks/post-commit", true) {
			t.Errorf("hooks of a remembered repository can be written with\n%s", shown(p))
		}
	}
}

// A .git file that leads to nothing lets no repository be made there.
func TestRepositoryThatIsGone(t *testing.T) {
	t.Parallel()
	root := plant(t, append(bare(".git/"), ".git/worktrees/other/HEAD", "empty/", "part/refs/", "full/file")...)
	write(t, root, map[string]string{
		"a/.git": "gitdir: ../.git/worktrees/a\n", "b/.git": "gitdir: ../gone/deep\n", "c/.git": "gitdir: ../empty\n",
		"d/.git": "gitdir: ../part\n", "e/.git": "gitdir: ../full\n",
	})
	v := compile(t, root, "rw .")
	for name, want := range map[string]bool{
		".git/worktrees/a/commondir": false, ".git/worktrees/b/commondir": true, "gone/deep/config": false, "gone/x": false,
		"empty/config": false, "empty/commondir": false, "empty/x": true, "part/config": false, "full/config": true,
	} {
		if v.Allows(filepath.Join(root, name), true) != want {
			t.Errorf("%s: write %t, want %t", name, !want, want)
		}
	}
}

// A new part of a worktree is reported, since a .git file that no search comes to may lead to it, and so are new hooks,
// configurations and commondir in a repository without a work tree, where no stub prevents them.
func TestPartsAreReported(t *testing.T) {
	t.Parallel()
	root := plant(t, append(bare(".git/"), append(bare("mirror/"), ".git/worktrees/")...)...)
	write(t, root, map[string]string{"mirror/config": "[core]\nrepositoryformatversion = 0\nbare = true\n"})
	before := compile(t, root, "rw .")
	write(t, root, map[string]string{
		".git/worktrees/w/HEAD": "", ".git/worktrees/w/commondir": "../..\n", "mirror/commondir": "../evil\n",
		"mirror/hooks/update": "",
	})
	var got []string
	for _, f := range compile(t, root, "rw .").Since(before) {
		got = append(got, f.Kind+" "+f.Path[len(root)+1:])
		if !strings.HasSuffix(f.Text, "in the repository that it lies in.") && f.Kind == "name" {
			t.Errorf("no sentence about %v", f)
		}
	}
	want := []string{"repository .git/worktrees/w", "name mirror/commondir", "name mirror/hooks"}
	if !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

// A folder that a name enters and leaves by .. cannot be replaced by a link, which would lead the name elsewhere.
func TestNamedPastAFolder(t *testing.T) {
	t.Parallel()
	root := plant(t, append(bare(".git/"), "out/deep/", "scripts/hooks/x")...)
	write(t, root, map[string]string{".git/config": "[core]\nhooksPath = out/deep/../../scripts/hooks\n"})
	v := compile(t, root, "rw .")
	for name, pinned := range map[string]bool{"out": true, "out/deep": true, "scripts": true} {
		if g, ok := v.Find(filepath.Join(root, name)); !ok || g.Path != filepath.Join(root, name) || g.Pinned != pinned {
			t.Errorf("%s: %+v", name, g)
		}
	}
	if v.Allows(root+"/scripts/hooks/y", true) || !v.Allows(root+"/out/x", true) {
		t.Error("the hooks can be written, or the folder cannot")
	}
	must(t, os.RemoveAll(root+"/out"))
	must(t, os.Symlink("scripts/hooks", root+"/out"))
	if _, err := cage.Compile(policy("rw ."), root); err == nil {
		t.Error("a link on the way is accepted")
	}
}

// In a project that is itself the folder of protected names, no policy makes them writable: the policy's text, by which
// a child is compared, does not show them.
func TestProjectInAProtectedName(t *testing.T) {
	t.Parallel()
	root := plant(t, ".config/git/config", ".config/app/x", ".config/nvim/init.lua") + "/.config"
	for _, grants := range [][]string{
		{"rw ."}, {"rw .", "rw ./git"}, {"rw ./git"}, {"rw ./git/config", "rw " + root + "/git"},
	} {
		v := compile(t, root, append(grants, "rw ./app")...)
		for name, want := range map[string]bool{"git/config": false, "git/new": false, "app/x": true} {
			if v.Allows(filepath.Join(root, name), true) != want {
				t.Errorf("%q: %s: write %t", grants, name, !want)
			}
		}
	}
	if v := compile(t, root+"/nvim", "rw ."); !v.Allows(root+"/nvim/init.lua", true) {
		t.Error("a project whose root is protected where it lies cannot be written")
	}
}

// The user's configuration of git is protected behind links, with its includes and the folder of templates, without a
// repository in the granted folders too.
func TestConfigurationOfTheUser(t *testing.T) {
	home := plant(t, "dotfiles/gitconfig", "dotfiles/work", "dotfiles/template/hooks/x", "dotfiles/tools/st",
		".gitconfig -> dotfiles/gitconfig", ".work -> dotfiles/work", "dotfiles/file")
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", home+"/dotfiles/xdg")
	write(t, home, map[string]string{
		"dotfiles/gitconfig": "[include]\npath = .work\n[init]\ntemplateDir = ~/dotfiles/template\n" +
			"[alias]\nst = !~/dotfiles/tools/st\nco = checkout\n[remote \"x\"]\nurl = ext::~/dotfiles/tools/ext %S\n",
		"dotfiles/tools/ext": "", "dotfiles/xdg/git/config": "",
	})
	for _, grants := range [][]string{
		{"rw ."}, {"rw .", "rw ./gitconfig", "rw ./work", "rw ./template"}, {"rw ./gitconfig"},
	} {
		v := compile(t, home+"/dotfiles", grants...)
		for name, want := range map[string]bool{
			"gitconfig": false, "work": false, "template/hooks/post-checkout": false, "tools/st": false, "tools/ext": false,
			"xdg/git/config": false, "file": true,
		} {
			if v.Allows(home+"/dotfiles/"+name, true) != (want && grants[0] == "rw .") {
				t.Errorf("%q: %s: write %t", grants, name, !want)
			}
		}
	}
}
