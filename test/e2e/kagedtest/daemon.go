package kagedtest

import (
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kaged.dev/pkg/client"
	"kaged.dev/pkg/host"
	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/services/gateway/apitest"
)

// World is the machine of a test: folders, configuration and environment.
type World struct {
	// Dir is the folder of all files; DataDir and Config are in it.
	Dir, DataDir, Config string
	// Env is the environment of its commands.
	Env []string
}

// NewWorld creates a world. toml is its configuration.
func NewWorld(t testing.TB, toml string, env ...string) *World {
	t.Helper()
	dir := t.TempDir()
	w := &World{
		Dir:     dir,
		DataDir: filepath.Join(dir, "data"),
		Config:  filepath.Join(dir, "local.toml"),
		Env:     Environ(env...),
	}
	w.Env = append(w.Env, "KAGED_DATA_DIR="+w.DataDir, "KAGED_CONFIG="+w.Config, "KAGED_RATE_LIMITS=off")
	w.Configure(t, toml)
	// The children of a killed daemon end by themselves; after that the folder can be removed.
	t.Cleanup(func() {
		Eventually(t, "everything of this test has ended", func() bool { return len(Running(t, dir)) == 0 })
		Eventually(t, "no control group of this test is there", func() bool { return len(ControlGroups(w.DataDir)) == 0 })
	})
	return w
}

// ControlGroups returns the control groups of kageds that use, or have used, a data directory.
func ControlGroups(dataDir string) (found []string) {
	node, err := os.ReadFile(filepath.Join(dataDir, "node"))
	if err != nil {
		return nil // no daemon runs
	}
	prefix := "kaged-" + strings.ToLower(strings.TrimSpace(string(node)))
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), prefix) {
			found = append(found, path)
			return fs.SkipDir
		}
		return nil // a group may be removed meanwhile
	})
	return found
}

// Configure replaces the configuration.
func (w *World) Configure(t testing.TB, toml string) {
	t.Helper()
	if err := os.WriteFile(w.Config, []byte(toml), 0o600); err != nil {
		t.Fatal(err)
	}
}

// FakeModels returns a configuration with the alias smart-generalist for a fake provider in a wire format.
func FakeModels(srv *fakellm.Server, driver string) string {
	return fmt.Sprintf(
		"[models]\nsmart-generalist = \"fake:claude-sonnet-4-5\"\n\n[providers.fake]\ndriver = %q\nbase_url = %q\napi_key "+
			"= \"sk-test\"\n",
		driver,
		srv.BaseURL(driver),
	)
}

// Daemon is a running kaged up.
type Daemon struct {
	*Process
	// LaunchURL is the URL it printed.
	LaunchURL string
	world     *World
}

// Up starts kaged up on a free port and returns when it is ready.
func (w *World) Up(t testing.TB, env []string, args ...string) *Daemon {
	t.Helper()
	p := Command(
		t,
		"kaged",
		append(append([]string{}, w.Env...), env...),
		append([]string{"up", "--listen", "127.0.0.1:0"}, args...)...)
	line := p.Line(t)
	url, ok := strings.CutPrefix(line, "kaged ready ")
	if !ok {
		t.Fatalf("kaged up said %q", line)
	}
	return &Daemon{Process: p, LaunchURL: url, world: w}
}

// Checked returns c with a check of each answer against the API's description.
func Checked(t testing.TB, c *client.Client) *client.Client {
	return c.WithTransport(func(next http.RoundTripper) http.RoundTripper {
		return apitest.Transport(next, func(err error) { t.Errorf("not as described: %v", err) })
	})
}

// SignIn returns a signed-in client of the daemon on the world's data directory, with its answers [Checked].
func (w *World) SignIn(t testing.TB) *client.Client {
	t.Helper()
	c, err := client.SignIn(t.Context(), host.SocketPath(w.DataDir, "gateway"))
	if err != nil {
		t.Fatalf("signing in: %v", err)
	}
	t.Cleanup(c.Close)
	return Checked(t, c)
}

// Project copies the example project examples/wordcount into the world and returns its folder.
func (w *World) Project(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(w.Dir, "wordcount")
	src := filepath.Join(repository(t), "examples", "wordcount")
	if err := os.CopyFS(dir, os.DirFS(src)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Write writes a file of a project.
func Write(t testing.TB, dir, path, content string) {
	t.Helper()
	full := filepath.Join(dir, path)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Read reads a file of a project.
func Read(t testing.TB, dir, path string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func repository(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for dir != filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	t.Fatal("no go.work above this package")
	return ""
}
