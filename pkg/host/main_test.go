package host

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
)

type quiet struct{}

func (quiet) Register(grpc.ServiceRegistrar) {}
func (quiet) Run(ctx context.Context) error  { <-ctx.Done(); return nil }

// A service's own binary serves until it is stopped, answers a health check of another process, and explains its flags
// and its refusals in one sentence.
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
	deadline := time.After(time.Minute)
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

// Without sign-in a gateway listens on a loopback address only, unless the flag or the variable permits any address; a
// service's own binary exits with 2 and explains.
func TestInsecureAnywhere(t *testing.T) {
	t.Parallel()
	for listen, loopback := range map[string]bool{
		"127.0.0.1:7420": true, "127.8.8.8:1": true, "[::1]:0": true, "localhost:0": true, "[::ffff:127.0.0.1]:0": true,
		"0.0.0.0:7420": false, "[::]:0": false, ":7420": false, "10.0.0.1:1": false, "box.lan:1": false, "[::1%lo]:0": false,
		"localhost.evil.example:0": false, "": false,
	} {
		if err := CheckInsecure(listen, true, false); (err == nil) != loopback ||
			err != nil && !strings.Contains(err.Error(), "--insecure-anywhere") {
			t.Errorf("%q: got %v", listen, err)
		}
		if err := errors.Join(CheckInsecure(listen, true, true), CheckInsecure(listen, false, false)); err != nil {
			t.Errorf("%q where it is allowed or not asked for: %v", listen, err)
		}
	}
	gateway := Module{Name: "probe", New: func(env *Env) (Service, error) {
		return quiet{}, CheckInsecure(env.Listen, env.Insecure, env.InsecureAnywhere)
	}}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	for anywhere, want := range map[string]int{"": exitUsage, "1": exitOK} {
		env := map[string]string{"KAGED_INSECURE": "1", "KAGED_LISTEN": "0.0.0.0:0", "KAGED_INSECURE_ANYWHERE": anywhere}
		var stderr bytes.Buffer
		code := binary{
			args: []string{"/bin/probe", "--config", "", "--data-dir", t.TempDir()}, stderr: &stderr, modules: []Module{gateway},
			getenv: func(name string) string { return env[name] },
		}.run(ctx)
		if code != want || (code == exitUsage) != strings.Contains(stderr.String(), "--insecure-anywhere") {
			t.Errorf("KAGED_INSECURE_ANYWHERE=%q: got exit %d, %s", anywhere, code, &stderr)
		}
	}
}
