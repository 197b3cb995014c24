package cage_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kaged.dev/pkg/cage"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
)

// bare are the parts of a repository's folder.
func bare(dir string) []string {
	return []string{dir + "HEAD", dir + "config", dir + "objects/", dir + "refs/"}
}

// naming writes a configuration that names a folder of hooks, a program and an include below dir.
func naming(t *testing.T, config, dir string) {
	t.Helper()
	text := "[core]\nhooksPath = " + dir + "scripts/hooks\nfsmonitor = " + dir + "tools/watch\n"
	if filepath.IsAbs(dir) {
		text += "[include]\npath = " + dir + "shared.gitconfig\n"
	}
	must(t, os.WriteFile(config, []byte(text), 0o644))
}

var named = []string{"scripts/hooks/pre-commit", "scripts/hooks/post-commit", "tools/watch", "shared.gitconfig"}

// A repository around the granted folders, such as that of a project in one of its folders, has the names in its
// configuration protected, and its gitlinks.
func TestRepositoryAround(t *testing.T) {
	t.Parallel()
	for _, project := range []string{"svc/a", "."} {
		top, commit := repository(t)
		root := filepath.Join(top, project)
		a := filepath.Join(top, "svc/a")
		for _, name := range []string{"scripts/hooks/pre-commit", "tools/watch", "shared.gitconfig", "vendor/lib/"} {
			must(t, os.MkdirAll(filepath.Dir(filepath.Join(a, name)), 0o755))
			if !strings.HasSuffix(name, "/") {
				must(t, os.WriteFile(filepath.Join(a, name), nil, 0o644))
			}
		}
		gitlink(t, top, commit, "svc/a/vendor/lib")
		for _, worktree := range []bool{false, true} {
			config := top + "/.git/config"
			if worktree { // of a repository elsewhere
				moved := t.TempDir() + "/git"
				must(t, os.Rename(top+"/.git", moved))
				must(t, os.WriteFile(top+"/.git", []byte("gitdir: "+moved+"\n"), 0o644))
				config = moved + "/config"
			}
			naming(t, config, "svc/a/")
			v := compile(t, root, "rw "+a)
			for _, name := range append(slices.Clone(named[:3]), "vendor/lib/.git/config") {
				if v.Allows(filepath.Join(a, name), true) {
					t.Errorf("project %s, .git a file %t: %s can be written", project, worktree, name)
				}
			}
			if !v.Allows(a+"/main.go", true) {
				t.Error("the rest cannot be written")
			}
		}
	}
}

// What git's configuration names is protected, if the name leads through links outside the granted folders; one that
// leads through a link inside refuses the policy, since the link can be replaced.
func TestNamedThroughLinks(t *testing.T) {
	t.Parallel()
	names := append(bare("real/.git/"), "real/scripts/hooks/pre-commit", "real/tools/watch", "real/shared.gitconfig",
		"link -> real", "real/inside -> scripts", "real/tools/link -> watch")
	top := plant(t, names...)
	root := top + "/real"
	naming(t, root+"/.git/config", top+"/link/")
	v := compile(t, root, "rw .")
	for _, name := range named {
		if v.Allows(filepath.Join(root, name), true) {
			t.Errorf("%s can be written", name)
		}
	}
	for _, setting := range []string{
		"hooksPath = inside/hooks", "fsmonitor = tools/link", "hooksPath = ../link/inside/hooks",
	} {
		must(t, os.WriteFile(root+"/.git/config", []byte("[core]\n"+setting+"\n"), 0o644))
		_, err := cage.Compile(policy("rw ."), root)
		if f := fault.From(err); err == nil || f.Code != fault.CagePolicyInvalid || !strings.Contains(f.Msg, " is a link") {
			t.Errorf("%s: %v", setting, err)
		}
	}
	for name, target := range map[string]string{".config": "dot", ".hg": "dot"} {
		root := plant(t, "dot/git/config", "dot/hgrc", name+" -> "+target)
		_, err := cage.Compile(policy("rw ."), root)
		if err == nil || !strings.Contains(err.Error(), "/"+name+" is a link") {
			t.Errorf("a protected name behind the link %s: %v", name, err)
		}
	}
}

// No policy makes writable what git's configuration names: such a path has any name, so neither the policy of a child
// nor a changed one can be checked for it.
func TestNamedByConfigurationAndPolicy(t *testing.T) {
	t.Parallel()
	root := plant(t, append(bare(".git/"), "scripts/hooks/pre-commit", "tools/watch", "shared.gitconfig")...)
	naming(t, root+"/.git/config", root+"/")
	for _, grants := range [][]string{
		{"rw .", "rw ./scripts/hooks", "rw ./tools/watch", "rw ./shared.gitconfig"},
		{"rw ./scripts/hooks", "rw ./tools/watch", "rw ./shared.gitconfig"},
		{"rw ./scripts/hooks/pre-commit", "rw ./tools"},
	} {
		child, excess := dsl.Narrow(policy("rw ."), policy(grants...))
		if len(excess) > 0 {
			t.Fatal(excess)
		}
		v, err := cage.Compile(child, root)
		must(t, err)
		for _, name := range named {
			if v.Allows(filepath.Join(root, name), true) {
				t.Errorf("%q: %s can be written", grants, name)
			}
		}
	}
}

// A part of a repository stays protected after an agent has removed the files of it that may be written: it could
// change the configuration and put the files back.
func TestPartsOfARepository(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ grants, files, protected []string }{
		"a worktree": {
			[]string{"rw ."},
			[]string{".git/worktrees/w/commondir"},
			[]string{".git/worktrees/w/commondir", ".git/worktrees/w/config.worktree"},
		},
		"a submodule in a named folder": {
			[]string{"rw .", "rw ./.git/modules"},
			[]string{".git/modules/m/config"},
			[]string{".git/modules/m/config", ".git/modules/m/hooks/post-checkout"},
		},
		"a named submodule": {
			[]string{"rw ./.git/modules/m"},
			[]string{".git/modules/m/config"},
			[]string{".git/modules/m/config", ".git/modules/m/hooks/post-checkout"},
		},
		"a folder elsewhere": {
			[]string{"rw ."}, []string{"store/config", "checkout/file"}, []string{"store/config"},
		},
	} {
		root := plant(t, append(bare(".git/"), tt.files...)...)
		if name == "a folder elsewhere" {
			must(t, os.WriteFile(root+"/checkout/.git", []byte("gitdir: ../store\n"), 0o644))
		}
		v := compile(t, root, tt.grants...)
		for _, path := range tt.protected {
			if v.Allows(filepath.Join(root, path), true) {
				t.Errorf("%s: %s can be written", name, path)
			}
		}
	}
	root := plant(t, append(bare(".git/"), append(bare(".git/modules/m/"), ".git/modules/m/refs/heads/config")...)...)
	if v := compile(t, root, "rw ."); !v.Allows(root+"/.git/modules/m/refs/heads/config", true) {
		t.Error("the branch config of a submodule is taken for a configuration")
	}
}
