package console_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The console's reducers, which turn frames and stored messages into rows, are correct in Node for every order of
// arrival; so are the parsers of diffs and of runs.
func TestReducers(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "npm", "test", "--silent")
	cmd.Dir = "../../services/gateway/web"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm test in services/gateway/web: %v\n%s", err, out)
	}
}

// kaged is built, and the demo runs, on a machine without Node: PATH has every program except node, npm and npx, and
// the plan of make demo has no npm.
func TestWithoutNode(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			switch e.Name() {
			case "node", "nodejs", "npm", "npx", "corepack":
			default:
				_ = os.Symlink(filepath.Join(dir, e.Name()), filepath.Join(bin, e.Name())) // the first program with a name counts
			}
		}
	}
	env := []string{"PATH=" + bin}
	for _, one := range os.Environ() {
		if !strings.HasPrefix(one, "PATH=") {
			env = append(env, one)
		}
	}
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, name), args...)
		cmd.Dir, cmd.Env = "../..", env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	if out := run("sh", "-c", "command -v node npm npx || true"); strings.TrimSpace(out) != "" {
		t.Fatalf("Node is there: %s", out)
	}
	if plan := run("make", "-n", "demo"); strings.Contains(plan, "web.sh") || strings.Contains(plan, "npm") {
		t.Errorf("make demo asks for Node:\n%s", plan)
	}
	kaged := filepath.Join(t.TempDir(), "kaged")
	run("go", "build", "-tags", "faults", "-o", kaged, "./services/kaged/cmd/kaged")
	if out := run("bash", "examples/demo.sh", kaged); !strings.HasSuffix(strings.TrimSpace(out), "demo: PASS") {
		t.Errorf("the demo says\n%s", out)
	}
}
