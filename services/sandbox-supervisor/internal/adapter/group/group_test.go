//go:build unix

package group

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/sandbox-supervisor/internal/core"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func run(t *testing.T) *Host {
	t.Helper()
	h := New(time.Second)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return h
}

func spec(t *testing.T, terminal *core.Size, argv ...string) core.Spec {
	return core.Spec{Argv: argv, Dir: t.TempDir(), Env: []string{"PATH=/usr/bin:/bin"}, Terminal: terminal}
}

// output copies a process's output until the process has ended.
func output(p core.Process) string {
	var out strings.Builder
	p.Copy(func(_ core.Stream, data []byte) { out.Write(data) })
	<-p.Exited()
	return strings.ReplaceAll(out.String(), "\r\n", "\n")
}

// A process group supports what it can of a command: output, input, size, signals, and the reason of the end.
func TestGroup(t *testing.T) {
	t.Parallel()
	h := run(t)
	p, err := h.Spawn(
		t.Context(),
		spec(t, &core.Size{Cols: 100, Rows: 30}, "sh", "-c", "test -t 1 && stty size </dev/tty; read x; echo got $x; exit 5"),
	)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Write([]byte("word\n")); err != nil {
		t.Fatal(err)
	}
	if got := output(p); !strings.Contains(got, "30 100\n") || !strings.Contains(got, "got word\n") ||
		p.End() != (core.End{Code: 5}) {
		t.Errorf("output is %q, the end %+v", got, p.End())
	}
	p, err = h.Spawn(t.Context(), spec(t, nil, "cat"))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Write([]byte("pipes")); err != nil {
		t.Fatal(err)
	}
	p.CloseInput()
	if got := output(p); got != "pipes" || p.Resize(core.Size{Cols: 1, Rows: 1}) {
		t.Errorf("output is %q", got)
	}
	p.Signal(syscall.SIGTERM) // too late, and without effect
}

// The group ends with its main process, and with the host.
func TestGroupEnds(t *testing.T) {
	t.Parallel()
	h := run(t)
	p, err := h.Spawn(t.Context(), spec(t, nil, "sh", "-c", "sleep 1000 & echo $!"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(output(p))) // returns only when all processes have closed the pipes
	if err != nil || pid <= 0 {
		t.Errorf("no background process: %v", err)
	}
	for _, end := range []func(core.Process){core.Process.Terminate, core.Process.Kill} {
		p, err := h.Spawn(t.Context(), spec(t, nil, "sh", "-c", "sleep 1000 & wait"))
		if err != nil {
			t.Fatal(err)
		}
		end(p)
		if output(p); p.End().Signal == 0 {
			t.Errorf("the end is %+v", p.End())
		}
	}
	p, err = h.Spawn(t.Context(), spec(t, nil, "sleep", "1000"))
	if err != nil {
		t.Fatal(err)
	}
	go output(p) // it ends with the host
}

// A command that cannot be started is refused with the same text as by the shim.
func TestGroupRefusals(t *testing.T) {
	t.Parallel()
	h := run(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	bad := spec(t, nil, "true")
	bad.Dir = file
	none := spec(t, nil, "true")
	none.Dir = "/no/such/folder"
	for _, c := range []struct {
		spec core.Spec
		code fault.Code
		text string
	}{
		{bad, fault.InvalidParams, "not a directory"},
		{none, fault.InvalidParams, "no such file"},
		{spec(t, nil, "no-such-program"), fault.ShellSpawnFailed, "no such file"},
		{spec(t, nil, file), fault.ShellSpawnFailed, "permission denied"},
		{spec(t, &core.Size{Cols: 1, Rows: 1}, "./nothing"), fault.ShellSpawnFailed, "no such file"},
	} {
		if _, err := h.Spawn(t.Context(), c.spec); !errors.Is(err, c.code) || !strings.Contains(fault.From(err).Msg, c.text) {
			t.Errorf("%v: %v", c.spec.Argv, err)
		}
	}
}
