package sandboxsupervisor_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

// storeAttack tries, in a caged shell, to make git outside run a program by the repositories around: $ROOT/out/store is
// the store of $ROOT/w, which the cage cannot see, $ROOT/out/mirror a bare repository, and $ROOT/out/past a folder that
// core.hooksPath of $ROOT/w enters and leaves. It prints the names of the attempts that wrote something.
const storeAttack = `cd "$ROOT/out"
exec </dev/null # nothing may ask
evil="touch $ROOT/out/PWNED; false"
try() { name=$1; shift; ("$@") >/dev/null 2>&1 && echo "worked: $name"; }
append() { printf '[core]\n fsmonitor = "%s"\n' "$evil" >>"$1"; }
hook() { mkdir -p "$1" && printf '#!/bin/sh\n%s\n' "$evil" >"$1/post-checkout" && chmod +x "$1/post-checkout"; }
moved() { mv "$1" "$1.old" && mkdir "$1"; }
try config append store/config
try config.worktree append store/config.worktree
try hooks hook store/hooks
try "named hooks" hook hooks
try commondir sh -c 'mkdir -p other && echo ../other >store/commondir'
try modules mkdir -p store/modules/m
try worktree append store/worktrees/tree/config.worktree
try "worktree's commondir" sh -c 'echo ../../../other >store/worktrees/tree/commondir'
try "a worktree that is gone" mkdir store/worktrees/gone/objects
try "mirror's config" append mirror/config
try "removed" rm -f store/config
try "replaced" sh -c 'cp store/config c && mv c store/config'
try "moved store" moved store
try "moved worktrees" moved store/worktrees
try "moved folder above" moved "$ROOT/out"
try "moved way" moved past
try "link in place of way" sh -c 'rmdir past && ln -s elsewhere past'
try "hard link" sh -c 'ln store/config hard && echo >>hard'
try "hard link in place" sh -c 'echo >mine && ln -f mine store/config'
try "descriptor" sh -c 'exec 3<store/config; echo >>/proc/self/fd/3'
try "descriptor of the folder" sh -c 'exec 3<store; echo >>/proc/self/fd/3/config'
try "working folder" sh -c 'cd store && echo >>/proc/self/cwd/config'
try "root" sh -c "echo >>/proc/self/root$ROOT/out/store/config"
try "pid 1's root" sh -c "echo >>/proc/1/root$ROOT/out/store/config"
try "git config" git --git-dir=store config core.fsmonitor "$evil"
try "GIT_CONFIG" env GIT_DIR=store git config --local core.fsmonitor "$evil"
try "GIT_COMMON_DIR" env GIT_DIR=store GIT_COMMON_DIR=store git config core.fsmonitor "$evil"
try "git init" git init --separate-git-dir store again
try "git init over it" git init --bare --template=hooks store
try "git clone over it" git clone store store/modules/m
try "exchange" python3 -c 'import ctypes,sys; sys.exit(ctypes.CDLL(None).renameat2(-100,b"other",-100,b"store",2)!=0)'
# what git may write, and then takes as its own again
rm -rf store/HEAD store/refs
append store/config 2>/dev/null
mkdir -p store/refs && echo "ref: refs/heads/main" >store/HEAD
echo "$ROOT/out/evil/objects" >store/objects/info/alternates
true`

// A cage may write a repository's store and does not see its work tree. The agent plants programs in the store and at
// the paths that the repository's configuration names. Git outside the cage runs none of them.
func TestStoreOfAnUnseenWorkTree(t *testing.T) {
	t.Parallel()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(root, "out")
	if err := os.MkdirAll(filepath.Join(out, "past"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(out, "hooks"), 0o755); err != nil {
		t.Fatal(err)
	}
	w := filepath.Join(root, "w")
	gitIn(t, root, "init", "-q", "--template=", "--separate-git-dir", filepath.Join(out, "store"), "w")
	gitIn(t, w, "commit", "-q", "--allow-empty", "-m", "first")
	gitIn(t, w, "config", "core.hooksPath", filepath.Join(out, "past")+"/../hooks")
	gitIn(t, w, "worktree", "add", "-q", filepath.Join(root, "tree"))
	gitIn(t, root, "init", "-q", "--bare", filepath.Join(out, "mirror"))
	if err := os.Mkdir(filepath.Join(root, "gone"), 0o755); err != nil {
		t.Fatal(err)
	}
	pointer := "gitdir: " + filepath.Join(out, "store/worktrees/gone") + "\n"
	if err := os.WriteFile(filepath.Join(root, "gone/.git"), []byte(pointer), 0o644); err != nil {
		t.Fatal(err)
	}
	policy := &commonv1.CagePolicy{
		Fs: []*commonv1.CageMount{{Mode: "rw", Path: "project:/out"}}, Seccomp: "default", State: "ephemeral",
	}
	client := serve(t, nil)
	for range 2 { // the second cage finds what the first one left
		c := mustHold(t, client, root, policy)
		r := begin(t, client, shell(t, storeAttack, func(s *sandboxsupervisorv1.ExecStart) {
			c.in(s)
			s.Cwd, s.Owner.SessionId = out, "session"
			s.Env["ROOT"] = root
		}))
		r.wait()
		if said := r.stdout.String(); strings.Contains(said, "worked: ") {
			t.Errorf("in the cage:\n%s", said)
		}
		if _, err := client.ReleaseCage(
			t.Context(), &sandboxsupervisorv1.ReleaseCageRequest{CageId: c.id, SessionId: "session"},
		); err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{w, filepath.Join(root, "tree"), filepath.Join(root, "gone")} {
			for _, args := range [][]string{{"status"}, {"checkout", "-q", "-f", "HEAD"}} {
				git := exec.Command("git", args...)
				git.Dir = dir
				git.Env = []string{
					"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory",
					"GIT_CONFIG_VALUE_0=*",
				}
				_ = git.Run() // a repository that the cage has broken is no harm
			}
		}
		if _, err := os.Stat(filepath.Join(out, "PWNED")); err == nil {
			t.Error("git outside ran the agent's program")
		}
	}
}
