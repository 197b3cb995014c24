package sandboxsupervisor_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

// gitProject makes a repository with one commit and an uninitialised gitlink.
func gitProject(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	gitIn(t, dir, "init", "-q")
	gitIn(t, dir, "commit", "-q", "--allow-empty", "-m", "first")
	if err := os.MkdirAll(filepath.Join(dir, "vendor/old"), 0o755); err != nil {
		t.Fatal(err)
	}
	gitIn(t, dir, "update-index", "--add", "--cacheinfo", "160000,"+gitIn(t, dir, "rev-parse", "HEAD")+",vendor/old")
	return dir
}

func gitIn(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com",
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func writes(git string) *commonv1.CagePolicy {
	return &commonv1.CagePolicy{
		Fs:      []*commonv1.CageMount{{Mode: "rw", Path: "project:/"}},
		Seccomp: "default",
		State:   "ephemeral",
		Git:     git,
	}
}

// plantAt makes a repository whose configuration runs a program, at a path in the project.
const plantAt = `plant() { mkdir -p "$1" && cd "$1" && git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x &&
git config core.fsmonitor "touch $ROOT/PWNED; false" && sha=$(git rev-parse HEAD) && cd "$ROOT" && git update-index --add --cacheinfo 160000,$sha,"$1"; }
git config --global safe.directory '*'; cd "$ROOT"; `

// Files that git at the project's root would run are protected if they existed before the cage, and otherwise found and
// reported when the cage is released (G2, G5).
func TestFoundAtTheEnd(t *testing.T) {
	t.Parallel()
	client := serve(t, nil)
	for _, tt := range []struct {
		name, git, script string
		found             []string // kind and path
		runs              bool     // git status at the root runs the planted program, which is not prevented
	}{
		{name: "nothing", script: "touch file"},
		{name: "a submodule that is in the index", script: "plant vendor/old"},
		{
			name: "a new gitlink", script: "plant vendor/new",
			found: []string{"gitlink vendor/new", "repository vendor/new/.git"}, runs: true,
		},
		{
			name: "a new gitlink, git read-only", git: "read_only", script: "plant vendor/new",
			found: []string{"repository vendor/new/.git"},
		},
		{name: "modules", script: "mkdir -p .git/modules/x && echo made"},
		{
			name: "a repository without a .git, and a broken .git", runs: true, found: []string{"repository "},
			script: `echo none >.git/HEAD; mkdir objects refs; echo "ref: refs/heads/main" >HEAD
printf '[core]\n repositoryformatversion = 0\n bare = false\n worktree = .\n fsmonitor = "touch %s/PWNED; false"\n' "$ROOT" >config`,
		},
		{
			name: "a repository without a .git, git read-only", git: "read_only", found: []string{"repository "},
			script: `echo none >.git/HEAD; mkdir objects refs; echo "ref: refs/heads/main" >HEAD
printf '[core]\n repositoryformatversion = 0\n bare = false\n worktree = .\n fsmonitor = "touch %s/PWNED; false"\n' "$ROOT" >config`,
		},
		{
			name: "names",
			script: "touch .envrc sub.txt; mkdir -p deep/.vscode deep/.zed; touch deep/.vscode/tasks.json lefthook-local.yml " +
				".bash_logout deep/mise.ci.toml",
			found: []string{
				"name .bash_logout", "name .envrc", "name deep/.vscode", "name deep/mise.ci.toml", "name lefthook-local.yml",
			},
		},
		{
			name: "folders",
			script: "for d in .husky .githooks .codex .gemini .zed .helix .opencode .windsurf .kiro .mise; do touch $d/x; " +
				"mkdir $d; rmdir $d; done",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			root := gitProject(t)
			policy := writes(tt.git)
			c := mustHold(t, client, root, policy)
			r := begin(t, client, shell(t, plantAt+tt.script, func(s *sandboxsupervisorv1.ExecStart) {
				c.in(s)
				s.Cwd, s.Owner.SessionId = root, "session"
				s.Env["ROOT"] = root
			}))
			r.wait()
			if strings.Contains(r.stdout.String(), "made") {
				t.Errorf("the shell made what is prevented: %s", r.stdout.String())
			}
			res, err := client.ReleaseCage(
				t.Context(),
				&sandboxsupervisorv1.ReleaseCageRequest{CageId: c.id, SessionId: "session"},
			)
			if err != nil {
				t.Fatal(err)
			}
			found := findings(res.GetFound(), root)
			if !slices.Equal(found, tt.found) {
				t.Errorf("found %q, want %q; the command said %s", found, tt.found, r.stdout.String())
			}
			status := exec.Command("git", "status")
			status.Dir = root
			status.Env = []string{
				"PATH=" + os.Getenv("PATH"),
				"HOME=/nonexistent",
				"GIT_CONFIG_COUNT=1",
				"GIT_CONFIG_KEY_0=safe.directory",
				"GIT_CONFIG_VALUE_0=*",
			}
			_ = status.Run()
			if _, err := os.Stat(filepath.Join(root, "PWNED")); (err == nil) != tt.runs {
				t.Errorf("git status at the root ran the agent's program: %v, want %v", err == nil, tt.runs)
			}
			for _, name := range []string{".husky", ".mise", "vendor/old/.git", ".git/modules"} {
				if _, err := os.Lstat(filepath.Join(root, name)); err == nil {
					t.Errorf("the stub %s is left", name)
				}
			}
		})
	}
}

// Files that a background process makes after its cage was released are reported at the end of its session, once,
// whether the process has ended before or is ended then.
func TestBackgroundProcessIsFoundAtTheSessionsEnd(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]bool{"it runs on": false, "it has ended": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := serve(t, nil)
			root := gitProject(t)
			c := mustHold(t, client, root, writes("writable"))
			d := detach(
				t,
				client,
				shell(
					t,
					`touch lefthook-local.yml; echo begun; read line; touch .envrc; echo made; read line`,
					pipes,
					func(s *sandboxsupervisorv1.ExecStart) {
						c.in(s)
						s.Cwd, s.Owner.SessionId = root, "session"
					},
				),
			)
			d.until("begun")
			res, err := client.ReleaseCage(
				t.Context(),
				&sandboxsupervisorv1.ReleaseCageRequest{CageId: c.id, SessionId: "session"},
			)
			if got := findings(res.GetFound(), root); err != nil || !slices.Equal(got, []string{"name lefthook-local.yml"}) {
				t.Errorf("got %q, %v at the release, want the file of before", got, err)
			}
			if err := d.control(stdin("go on\n")); err != nil {
				t.Fatal(err)
			}
			d.until("made")
			if ends {
				if err := d.control(stdin("end\n")); err != nil {
					t.Fatal(err)
				}
				d.wait()
			}
			for i, want := range [][]string{{"name .envrc"}, nil} {
				res, err := client.EndOwner(t.Context(), &sandboxsupervisorv1.EndOwnerRequest{SessionId: "session"})
				if got := findings(res.GetFound(), root); err != nil || !slices.Equal(got, want) {
					t.Errorf("got %q, %v at end %d of the session, want %q", got, err, i+1, want)
				}
			}
		})
	}
}

// findings formats the kinds and paths of findings.
func findings(found []*commonv1.CageFinding, root string) (list []string) {
	for _, f := range found {
		list = append(list, f.GetKind()+" "+strings.TrimPrefix(strings.TrimPrefix(f.GetPath(), root), "/"))
	}
	return list
}

// A socket of the host in a granted folder, read-only or writable, does not answer in the cage (G6); a dead one can be
// removed.
func TestSocketsAreCovered(t *testing.T) {
	t.Parallel()
	client := serve(t, nil)
	root := project(t)
	for _, dir := range []string{"docs/deep", "work/run"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	listen := func(path string) *net.UnixListener {
		t.Helper()
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(root, path)})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		return l
	}
	var reached []string
	for _, path := range []string{"docs/deep/s", "work/run/s"} {
		l := listen(path)
		defer l.Close()
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				reached = append(reached, path)
				c.Close()
			}
		}()
	}
	listen("work/run/dead").Close()
	policy := grantsWork()
	policy.Fs = append(policy.Fs, &commonv1.CageMount{Mode: "ro", Path: "project:/docs"})
	r := begin(
		t,
		client,
		shell(
			t,
			"for s in docs/deep/s work/run/s; do test -S ../$s && echo open $s; done; rm run/dead && echo removed; test -f "+
				"run/s && echo covered",
			func(s *sandboxsupervisorv1.ExecStart) { inCage(root, policy)(s) },
		),
	)
	r.wait()
	if text := r.stdout.String(); strings.Contains(text, "open") || !strings.Contains(text, "removed") ||
		!strings.Contains(text, "covered") {
		t.Errorf("the command says %q", text)
	}
	if len(reached) > 0 {
		t.Errorf("%v were reached, by the probe or the cage", reached)
	}
}
