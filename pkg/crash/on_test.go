//go:build faults

package crash

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// TestMain can run the test binary as a process that reaches a point twice.
func TestMain(m *testing.M) {
	if os.Getenv("CRASH_TEST_CHILD") != "" {
		At(TurnStored)
		os.Stdout.WriteString("once ")
		At(TurnStored)
		os.Stdout.WriteString("twice")
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A process dies by SIGKILL at the selected point and count, and refuses to start with an unknown name.
func TestAt(t *testing.T) {
	for plan, want := range map[string]struct {
		out    string
		signal syscall.Signal
		exit   int
	}{
		"":               {"once twice", 0, 0},
		"message_stored": {"once twice", 0, 0},
		"turn_stored":    {"", syscall.SIGKILL, -1},
		"turn_stored:2":  {"once ", syscall.SIGKILL, -1},
		"turn_stored:3":  {"once twice", 0, 0},
		"turn_stored:0":  {"", 0, 2},
		"trun_stored":    {"", 0, 2},
	} {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = []string{"CRASH_TEST_CHILD=1", Variable + "=" + plan}
		out, err := cmd.Output()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		status := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if string(out) != want.out || cmd.ProcessState.ExitCode() != want.exit || status.Signaled() != (want.signal != 0) {
			t.Errorf("%q: wrote %q and ended %v", plan, out, cmd.ProcessState)
		}
	}
}
