package box_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"kaged.dev/pkg/ident"
	"kaged.dev/services/sandbox-supervisor/internal/adapter/box"
	"kaged.dev/services/sandbox-supervisor/internal/core"
)

// lines is a log that is safe for concurrent use.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(data)
}

func (l *lines) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), text)
}

// freezer makes a frozen cgroup of version 1, in which SIGKILL has no effect, as for a process that hangs in a device.
// set freezes and thaws it.
func freezer(t *testing.T) (put func(pid int), set func(state string)) {
	t.Helper()
	dir := filepath.Join("/sys/fs/cgroup/freezer", "kaged-test-"+ident.New())
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skip("no process can be frozen here: ", err)
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0); err != nil {
			t.Fatal(err)
		}
	}
	set = func(state string) {
		write("freezer.state", state)
		until(t, state, func() bool {
			now, err := os.ReadFile(filepath.Join(dir, "freezer.state"))
			return err == nil && strings.TrimSpace(string(now)) == state
		})
	}
	t.Cleanup(func() {
		set("THAWED")
		until(t, "an empty cgroup", func() bool { return os.Remove(dir) == nil })
	})
	return func(pid int) { write("cgroup.procs", strconv.Itoa(pid)) }, set
}

// A process that cannot be killed does not delay the end of its cage, and the log names it. If it is the init, whose
// commands may continue, the stubs stay.
func TestUnkillable(t *testing.T) {
	t.Parallel()
	for _, which := range []string{"command", "init"} {
		t.Run(which, func(t *testing.T) {
			t.Parallel()
			put, set := freezer(t)
			dir, journals, log := project(t), t.TempDir(), &lines{}
			b := boxes(t, func(o *box.Options) {
				o.Dir, o.KillTimeout = journals, 500*time.Millisecond
				o.Log = slog.New(slog.NewTextHandler(log, nil))
			})
			x := openView(t, b, compile(t, dir))
			init := box.InitOf(x)
			p, err := x.Spawn(t.Context(), core.Spec{Argv: []string{"/bin/sleep", "1000"}, Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			put(map[string]int{"command": p.PID(), "init": init}[which])
			set("FROZEN")
			x.Close()
			<-p.Exited()
			if !log.has("cannot be killed") {
				t.Errorf("the log says %s", &log.text)
			}
			if stubs := names(t, dir); which == "init" && len(stubs) == 0 {
				t.Error("the stubs are gone and the init is not")
			}
			set("THAWED")
			until(t, "an end of the stubs", func() bool {
				b.Sweep()
				return len(names(t, dir))+len(names(t, journals)) == 0
			})
		})
	}
}
