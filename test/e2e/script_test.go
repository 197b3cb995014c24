package e2e_test

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// The scripts in testdata/script are sessions on a terminal. Each has its own machine: $WORK with an empty data
// directory, and a database. The command `models DRIVER` starts a fake provider scripted by the llm/N files, and writes
// $WORK/local.toml with the provider as target of the alias smart-generalist. `answer` runs a command on a terminal.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(env *testscript.Env) error {
			for _, kv := range append(kagedtest.Environ(), databaseEnv(t)...) {
				name, value, _ := strings.Cut(kv, "=")
				if name != "PATH" && name != "HOME" && name != "TMPDIR" {
					env.Setenv(name, value)
				}
			}
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("GOCACHE", goEnv("GOCACHE"))
			env.Setenv("KAGED_DATA_DIR", filepath.Join(env.WorkDir, "data"))
			env.Setenv("KAGED_CONFIG", filepath.Join(env.WorkDir, "local.toml"))
			env.Values[environment{}] = env
			env.Defer(func() {
				endDaemon(env.WorkDir)
				if left := kagedtest.ControlGroups(env.Getenv("KAGED_DATA_DIR")); len(left) > 0 {
					t.Errorf("control groups are left: %v", left)
				}
			})
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"models": startModels, "answer": answerQuestion},
	})
}

// endDaemon ends the daemon of up.pid if a failed script has left it running.
func endDaemon(dir string) {
	const end = `test -e up.pid && pid=$(cat up.pid) && kill $pid 2>/dev/null &&
		while kill -0 $pid 2>/dev/null; do sleep 0.1; done`
	cmd := exec.Command("sh", "-c", end)
	cmd.Dir = dir
	_ = cmd.Run() // It fails if there is no such daemon.
}

// environment is the key of a script's *testscript.Env.
type environment struct{}

func startModels(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: models DRIVER")
	}
	files, err := fakellm.ReadFiles(os.DirFS(ts.MkAbs(".")))
	ts.Check(err)
	srv := fakellm.New(func(format string, args ...any) { ts.Logf(format, args...) })
	ts.Check(srv.Load(files))
	web := httptest.NewServer(srv)
	ts.Defer(web.Close)
	ts.Defer(srv.Close)
	srv.URL = web.URL
	ts.Check(os.WriteFile(ts.MkAbs("local.toml"), []byte(kagedtest.FakeModels(srv, args[0])), 0o600))
}

func goEnv(name string) string {
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
