package host

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
)

type quiet struct{}

func (quiet) Register(grpc.ServiceRegistrar) {}
func (quiet) Run(ctx context.Context) error  { <-ctx.Done(); return nil }

// A service's own binary serves until it is told to stop, says its health to another start of itself, and explains its
// flags and its refusals in a sentence.
func TestServiceBinary(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	modules := []Module{{Name: "probe", New: func(*Env) (Service, error) { return quiet{}, nil }}}
	env := func(string) string { return "" }
	start := func(ctx context.Context, args ...string) (int, string) {
		var stderr bytes.Buffer
		all := append([]string{"/bin/probe", "--config", filepath.Join(dir, "none.toml"), "--data-dir", dir}, args...)
		code := binary{args: all, getenv: env, stderr: &stderr, modules: modules}.run(ctx)
		return code, stderr.String()
	}
	if code, text := start(t.Context(), "--health"); code != exitError || !strings.HasPrefix(text, "probe: ") {
		t.Errorf("health of nothing = %d %q", code, text)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int)
	go func() { code, _ := start(ctx); ended <- code }()
	deadline := time.After(10 * time.Second)
	for {
		if code, _ := start(t.Context(), "--health"); code == exitOK {
			break
		}
		select {
		case <-deadline:
			t.Fatal("the service never became healthy")
		default:
		}
	}
	if code, text := start(t.Context()); code != exitError || !strings.Contains(text, "cannot listen") {
		t.Errorf("a second start on the same socket = %d %q", code, text)
	}
	stop()
	if code := <-ended; code != exitOK {
		t.Errorf("the service ended with %d", code)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--help"}, exitOK, "Usage: probe"},
		{[]string{"--version"}, exitOK, "probe 0."},
		{[]string{"--nonsense"}, exitUsage, "nonsense"},
		{[]string{"extra"}, exitUsage, `unexpected argument "extra"`},
	} {
		if code, text := start(t.Context(), c.args...); code != c.code || !strings.Contains(text, c.want) {
			t.Errorf("%v = %d %q", c.args, code, text)
		}
	}
}
