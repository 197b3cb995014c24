package cage_test

import (
	"os"
	"path/filepath"
	"testing"
)

// bare are the parts of a repository's folder.
func bare(dir string) []string {
	return []string{dir + "HEAD", dir + "config", dir + "objects/", dir + "refs/"}
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
			[]string{"rw ."}, []string{"store/config", "work/file"}, []string{"store/config"},
		},
	} {
		root := plant(t, append(bare(".git/"), tt.files...)...)
		if name == "a folder elsewhere" {
			must(t, os.WriteFile(root+"/work/.git", []byte("gitdir: ../store\n"), 0o644))
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
