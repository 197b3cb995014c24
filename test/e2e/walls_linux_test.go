package e2e_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kaged.dev/pkg/testkit"
	"kaged.dev/test/e2e/kagedtest"
)

// ordinary is a user without privileges, for tests that run as root.
const ordinary = 23457

// ground is a folder of one user with the binaries and a project.
type ground struct {
	t   *testing.T
	uid int
	dir string // without links, and short enough for sockets
}

// grounds runs a test as the present user, and if that is root, also as an ordinary user.
func grounds(t *testing.T, test func(t *testing.T, g *ground)) {
	users := map[string]int{"user": os.Getuid()}
	if os.Getuid() == 0 {
		users = map[string]int{"root": 0, "user": ordinary}
	}
	for name, uid := range users {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, err := os.MkdirTemp("", "kaged-walls-")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(dir) })
			if dir, err = filepath.EvalSymlinks(dir); err != nil {
				t.Fatal(err)
			}
			g := &ground{t: t, uid: uid, dir: dir}
			g.mkdir("bin", "p", "etc", "home")
			self, err := os.ReadFile("/proc/self/exe")
			if err != nil {
				t.Fatal(err)
			}
			testkit.WriteProgram(t, filepath.Join(dir, "bin", "self"), self)
			kagedtest.Write(t, dir, "p/.kaged/project.yaml", `version: 1
project: walls
primary:
  model: smart-generalist
  system_prompt: ./.kaged/prompt.md
  tools: {"shell.*": {enabled: true}}
  cage: {fs: [{mode: rw, path: "project:/"}], capabilities: [shell]}
`)
			kagedtest.Write(t, dir, "p/.kaged/prompt.md", "You obey.\n")
			kagedtest.Write(t, dir, "p/local.toml", "# "+secretText+"\n")
			kagedtest.Write(t, dir, "p/policy.yaml", "fs: [{mode: rw, path: \"project:/\"}]\ncapabilities: [shell]\n")
			for link, target := range map[string]string{"p/here": ".", "p/cfg": "../etc"} {
				if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
					t.Fatal(err)
				}
			}
			g.own()
			test(t, g)
		})
	}
}

// secretText is in files that no cage may read.
const secretText = "the-key-of-a-provider"

func (g *ground) mkdir(names ...string) {
	g.t.Helper()
	for _, name := range names {
		if err := os.MkdirAll(filepath.Join(g.dir, name), 0o755); err != nil {
			g.t.Fatal(err)
		}
	}
}

// own gives all files to the user and allows everyone to enter the folder.
func (g *ground) own() {
	g.t.Helper()
	if err := os.Chmod(g.dir, 0o755); err != nil {
		g.t.Fatal(err)
	}
	if os.Getuid() != 0 {
		return
	}
	err := filepath.WalkDir(g.dir, func(path string, _ os.DirEntry, err error) error {
		if err == nil {
			err = os.Lchown(path, g.uid, g.uid)
		}
		return err
	})
	if err != nil {
		g.t.Fatal(err)
	}
}

// command returns one of kaged's commands, in the project's folder.
func (g *ground) command(name string, env []string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(g.t.Context(), filepath.Join(g.dir, "bin", "self"), args...)
	cmd.Dir = filepath.Join(g.dir, "p")
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(g.dir, "home"), "KAGED_TEST_EXEC=" + name,
	}, env...)
	if os.Getuid() == 0 && g.uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(g.uid), Gid: uint32(g.uid)}}
	}
	return cmd
}

// runs returns the exit code and the output of a command.
func (g *ground) runs(name string, env []string, args ...string) (code int, stdout, stderr string) {
	g.t.Helper()
	cmd := g.command(name, env, args...)
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	err := cmd.Run()
	if cmd.ProcessState == nil {
		g.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), log.String()
}

// For all names of kaged's own folders, relative, through links or from the environment, a cage that would show them is
// refused in a sentence with the folder, by every command that creates or shows cages. No file in them is read or
// written.
func TestCagesHoldNothingOfKaged(t *testing.T) {
	t.Parallel()
	grounds(t, func(t *testing.T, g *ground) {
		for name, c := range map[string]struct {
			env, flags []string
			want       string
		}{
			"relative":         {nil, []string{"--data-dir", "data", "--config", "local.toml"}, g.dir + "/p/data"},
			"by the variables": {[]string{"KAGED_DATA_DIR=data", "KAGED_CONFIG=local.toml"}, nil, g.dir + "/p/data"},
			"relative and back": {
				nil, []string{"--data-dir", "../p/./data", "--config", "../etc/local.toml"}, g.dir + "/p/data",
			},
			"through a link":    {nil, []string{"--data-dir", "here/data", "--config", "../etc/local.toml"}, g.dir + "/p/data"},
			"the configuration": {nil, []string{"--data-dir", "../data", "--config", "local.toml"}, g.dir + "/p/local.toml"},
			"not there yet": {
				nil, []string{"--data-dir", "../data", "--config", "sub/not/yet.toml"}, g.dir + "/p/sub/not/yet.toml",
			},
			"by a link that the agent could exchange": {
				nil, []string{"--data-dir", "../data", "--config", "cfg/local.toml"}, g.dir + "/p/cfg",
			},
			"absolute": {nil, []string{"--data-dir", g.dir + "/p/data", "--config", g.dir + "/p/local.toml"}, g.dir + "/p/data"},
		} {
			for command, args := range map[string][]string{
				"cage exec": {
					"cage", "exec", "--policy", "policy.yaml", "--", "sh", "-c",
					"cat local.toml; echo WROTE >> local.toml; echo WROTE > sub",
				},
				"cage show": {"cage", "show"},
				"tools call": {
					"tools", "call", "--agent", "primary", "shell.bash", `{"command": "cat local.toml; echo WROTE >> local.toml"}`,
				},
			} {
				code, stdout, stderr := g.runs("kaged", c.env, append(append([]string{}, c.flags...), args...)...)
				if code == 0 || !strings.Contains(stdout+stderr, c.want) || !strings.Contains(stdout+stderr, "kaged") {
					t.Errorf("%s, %s: got exit %d, %s%s, want a refusal that names %s", name, command, code, stdout, stderr, c.want)
				}
				if strings.Contains(stdout+stderr, secretText) || strings.Contains(stdout+stderr, "cross-device") {
					t.Errorf("%s, %s: it says %s%s", name, command, stdout, stderr)
				}
			}
		}
		if text := kagedtest.Read(t, g.dir, "p/local.toml"); text != "# "+secretText+"\n" {
			t.Errorf("the configuration is %q now", text)
		}
		// If kaged's own paths are outside the project and named relative to it, no command fails, and no cage shows them.
		code, stdout, stderr := g.runs("kaged", nil, "--data-dir", "../data", "--config", "../etc/local.toml", "cage", "exec",
			"--policy", "policy.yaml", "--",
			"sh", "-c", "cat local.toml; ls ../data ../etc")
		if code == 0 || !strings.Contains(stdout, secretText) || strings.Count(stderr, "No such file") != 2 {
			t.Errorf("beside the project: got exit %d, %s%s, want the project's file and nothing of kaged's", code, stdout,
				stderr)
		}
	})
}

// A caged process may see the socket of another kaged's service, in folders unknown to its own kaged. The service
// refuses it, although it has the same user outside and sends the service token. Outside the cage the same call
// succeeds.
func TestSocketSeenByACage(t *testing.T) {
	t.Parallel()
	grounds(t, func(t *testing.T, g *ground) {
		g.mkdir("b/run")
		kagedtest.Write(t, g.dir, "token", strings.Repeat("token", 8))
		g.own()
		data, token := filepath.Join(g.dir, "b"), "KAGED_SERVICE_TOKEN_FILE="+filepath.Join(g.dir, "token")
		kagedtest.Write(t, g.dir, "seen.yaml",
			fmt.Sprintf("fs: [{mode: rw, path: %q}, {mode: ro, path: %q}, {mode: ro, path: %q}]\ncapabilities: [shell]\n",
				data, filepath.Join(g.dir, "bin"), filepath.Join(g.dir, "token")))
		health := "KAGED_TEST_EXEC=sandbox-supervisor " + filepath.Join(g.dir, "bin", "self") + " --data-dir " + data +
			" --health"
		// The cage is created first, so that the socket appears in it.
		cage := g.command("kaged", nil, "--data-dir", "../a", "--config", "../etc/a.toml", "cage", "exec", "--policy",
			filepath.Join(g.dir, "seen.yaml"), "--", "sh", "-c",
			"echo waiting; until [ -S "+data+"/run/sandbox-supervisor.sock ]; do sleep 0.05; done; for token in '' "+token+
				"; do\n"+
				"until "+"env $token "+health+" >"+data+"/said 2>&1 || ! grep -q 'does not answer' "+data+
				"/said; do sleep 0.05; done; cat "+data+"/said; done; echo over")
		out, err := cage.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		cage.Stderr = &log
		if err := cage.Start(); err != nil {
			t.Fatal(err)
		}
		first := make([]byte, len("waiting\n"))
		if _, err := out.Read(first); err != nil || string(first) != "waiting\n" {
			t.Fatalf("the cage said %q, %v: %s", first, err, &log)
		}
		service := g.command("sandbox-supervisor", []string{token}, "--data-dir", data, "--config", "../etc/b.toml")
		var serviceLog bytes.Buffer
		service.Stderr = &serviceLog
		if err := service.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = service.Process.Signal(syscall.SIGTERM)
			_ = service.Wait()
			if t.Failed() {
				t.Logf("the service said: %s", &serviceLog)
			}
		})
		var said bytes.Buffer
		_, _ = said.ReadFrom(out)
		_ = cage.Wait()
		want := "kaged's services answer no process in a cage"
		if g.uid == 0 {
			want = "kaged's services answer the user they run as" // inside the cage it has another user
		}
		if strings.Count(said.String(), want) != 2 || !strings.Contains(said.String(), "over") {
			t.Errorf("in the cage: got %s%s, want %q twice", &said, &log, want)
		}
		kagedtest.Eventually(t, "the service serves outside of the cage", func() bool {
			code, _, _ := g.runs("sandbox-supervisor", nil, "--data-dir", data, "--config", "../etc/b.toml", "--health")
			return code == 0
		})
	})
}

// An uncaged command of kaged's user cannot read kaged's environment in any process. A kaged that is protected from its
// user's other processes can still create cages.
func TestUncagedCommandCannotReadKagedsEnvironment(t *testing.T) {
	t.Parallel()
	grounds(t, func(t *testing.T, g *ground) {
		if g.uid == 0 {
			return // root reads everything
		}
		places := []string{"--data-dir", "../data", "--config", "../etc/local.toml"}
		env := []string{"KAGED_TEST_PROVIDER_KEY=" + secretText}
		code, stdout, stderr := g.runs("kaged", env, append(places, "tools", "call", "--yes", "shell.bash",
			`{"command": "grep -lz KAGED_TEST_PROVIDER_KEY= /proc/[0-9]*/environ 2>/dev/null; for p in /proc/[0-9]*; do cat `+
				`$p/environ $p/maps; done 2>&1 | grep -c denied; id -u"}`)...)
		if code != 0 || !strings.Contains(stdout, fmt.Sprint(g.uid)) {
			t.Fatalf("the command: got exit %d, %s%s", code, stdout, stderr)
		}
		if strings.Contains(stdout, "environ") {
			t.Errorf("it found the key of a provider in %s", stdout)
		}
		code, stdout, stderr = g.runs(
			"kaged", env, append(places, "cage", "exec", "--policy", "policy.yaml", "--", "sh", "-c",
				"id -un; echo made > x; cat x")...,
		)
		if code != 0 || stdout != "agent\nmade\n" {
			t.Errorf("a cage: got exit %d, %s%s", code, stdout, stderr)
		}
		_, stdout, stderr = g.runs("kaged", env, append(places, "doctor", "--json")...)
		for _, layer := range []string{"user namespaces", "mount", "pid", "net", "ipc", "uts"} {
			if !strings.Contains(stdout, fmt.Sprintf(`"name": %q`, layer)) &&
				!strings.Contains(stdout, fmt.Sprintf(`"name":%q`, layer)) {
				t.Errorf("doctor says nothing of %s: %s%s", layer, stdout, stderr)
			}
		}
		if !strings.Contains(stdout, `"tier": "userns"`) && !strings.Contains(stdout, `"tier":"userns"`) {
			t.Errorf("doctor finds no cages: %s%s", stdout, stderr)
		}
	})
}
