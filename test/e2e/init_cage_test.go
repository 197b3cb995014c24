package e2e_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kaged.dev/test/e2e/kagedtest"
)

// workshop has a new project and a machine for it.
type workshop struct {
	t    *testing.T
	home string
	dir  string
	env  []string
}

func newWorkshop(t *testing.T, files map[string]string, env ...string) *workshop {
	t.Helper()
	w := &workshop{t: t, home: t.TempDir(), dir: t.TempDir()}
	w.env = kagedtest.Environ(append([]string{
		"HOME=" + w.home, "KAGED_DATA_DIR=" + filepath.Join(w.home, "data"),
		"KAGED_CONFIG=" + filepath.Join(w.home, "local.toml"), "OLLAMA_HOST=127.0.0.1:1",
	}, env...)...)
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// kaged runs a command of kaged and returns its output.
func (w *workshop) kaged(args ...string) string {
	w.t.Helper()
	p := kagedtest.Command(w.t, "kaged", w.env, args...)
	stdout, code := p.Rest(w.t)
	if code != 0 {
		w.t.Fatalf("kaged %v: exit %d, %s\n%s", args, code, stdout, p.Stderr)
	}
	return stdout
}

// shell runs a command as the new project's agent, in the cage that init wrote.
func (w *workshop) shell(command string) string {
	w.t.Helper()
	call, err := json.Marshal(map[string]any{"command": command})
	if err != nil {
		w.t.Fatal(err)
	}
	var result struct {
		Stdout, Stderr string
		ExitCode       int `json:"exit_code"`
	}
	said := w.kaged("tools", "call", "--project", w.dir, "--agent", "primary", "shell.bash", string(call))
	if err := json.Unmarshal([]byte(said), &result); err != nil || result.ExitCode != 0 {
		w.t.Fatalf("%s: %v, %s", command, err, said)
	}
	return result.Stdout
}

// In the cage that kaged init writes a project's tools work, without a network, for toolchains in the system and in the
// user's home folder. The rest of the home folder is hidden.
func TestInitWritesACageToWorkIn(t *testing.T) {
	t.Parallel()
	t.Run("Go", func(t *testing.T) {
		t.Parallel()
		version := strings.TrimSpace(output(t, "go", "list", "-m", "-f", "{{.Version}}", "github.com/google/go-cmp"))
		cache := goEnv("GOMODCACHE")
		var sums strings.Builder // of a go.sum: without them go contacts a database on the network
		for line := range strings.Lines(read(t, filepath.Join("..", "go.sum"))) {
			if strings.HasPrefix(line, "github.com/google/go-cmp "+version) {
				sums.WriteString(line)
			}
		}
		w := newWorkshop(t, map[string]string{
			"go.sum": sums.String(),
			"go.mod": "module words\n\ngo 1.22\n\nrequire github.com/google/go-cmp " + version + "\n",
			"main.go": "package main\n\nimport \"github.com/google/go-cmp/cmp/cmpopts\"\n\nfunc main() { " +
				"println(cmpopts.EquateEmpty() != nil) }\n",
		}, "GOMODCACHE="+cache, "GOPROXY=off", "GOFLAGS=-mod=mod", "GOSUMDB=sum.golang.org", "GOCACHE="+goEnv("GOCACHE"))
		tidy := exec.Command("go", "mod", "tidy")
		tidy.Dir, tidy.Env = w.dir, w.env
		if out, err := tidy.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		w.kaged("init", w.dir)
		if text := read(t, filepath.Join(w.dir, ".kaged", "project.yaml")); strings.Contains(text, "allow:") ||
			strings.Contains(text, cache) {
			t.Errorf("the project file names a host or a path of this machine:\n%s", text)
		}
		if got := w.shell("go run . 2>&1 && ls " + w.home + " 2>&1 || true"); !strings.Contains(got, "true\n") ||
			!strings.Contains(got, "No such file") {
			t.Errorf("go run: %s", got)
		}
	})
	t.Run("Python", func(t *testing.T) {
		t.Parallel()
		w := newWorkshop(t, map[string]string{
			"pyproject.toml": "",
			"test_words.py": "import unittest\n\nclass T(unittest.TestCase):\n    def test_one(self):\n        " +
				"self.assertEqual(len('a b'.split()), 2)\n",
		})
		w.kaged("init", w.dir)
		if got := w.shell("python3 -m unittest 2>&1"); !strings.Contains(got, "OK") {
			t.Errorf("python: %s", got)
		}
	})
	node, err := exec.LookPath("node")
	if err != nil {
		return // setup.sh installs no toolchain; TestToolchains of scaffold covers the grants
	}
	t.Run("Node.js in the home", func(t *testing.T) {
		t.Parallel()
		w := newWorkshop(t, map[string]string{
			"package.json": "{}", "words.js": "console.log('a b'.split(' ').length, process.execPath)\n",
		})
		prefix := filepath.Join(w.home, "versions", "node")
		if err := os.MkdirAll(filepath.Join(prefix, "bin"), 0o755); err != nil {
			t.Fatal(err)
		}
		program, err := os.ReadFile(node)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(prefix, "bin", "node"), program, 0o755); err != nil {
			t.Fatal(err)
		}
		w.env = append(w.env, "PATH="+filepath.Join(prefix, "bin")+":"+os.Getenv("PATH"))
		w.kaged("init", w.dir)
		if got := w.shell("node words.js"); got != "2 "+filepath.Join(prefix, "bin", "node")+"\n" {
			t.Errorf("node: %s", got)
		}
	})
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
