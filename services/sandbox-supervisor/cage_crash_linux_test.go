//go:build faults

package sandboxsupervisor_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kaged.dev/pkg/crash"
)

// After a kill between any two steps of making or removing a cage, the next supervisor removes all remains.
func TestKilledBetweenSteps(t *testing.T) {
	t.Parallel()
	tried := 0
	for _, point := range crash.Points() {
		if !strings.HasPrefix(string(point), "cage_") {
			continue
		}
		for _, times := range []string{"", ":2"} {
			tried++
			t.Run(string(point)+times, func(t *testing.T) {
				t.Parallel()
				h := startHolder(t, 2, string(point)+times, "release")
				h.finish(t)
				waitFor(t, "the processes of the cages to end", func() bool { return len(seeing(h.project)) == 0 })
				h.nothingLeft(t, nil)
			})
		}
	}
	if tried < 14 {
		t.Errorf("%d points were tried only", tried)
	}
}

// finish waits until the supervisor has killed itself.
func (h *holder) finish(t *testing.T) {
	t.Helper()
	for h.out.Scan() { // earlier output is skipped
	}
	var exit *exec.ExitError
	if err := h.cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the supervisor ended with %v instead of at its point", err)
	}
}

// seeing returns the processes in whose mount namespace a folder is mounted: those of its cages.
func seeing(dir string) (found []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/mountinfo")
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && bytes.Contains(text, []byte(dir)) {
			found = append(found, file)
		}
	}
	return found
}
