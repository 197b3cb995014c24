//go:build faults

package crash

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// The process that reaches the point of a trap kills the trap's victim and removes the trap. Another point leaves both.
func TestTrap(t *testing.T) {
	t.Parallel()
	for point, springs := range map[Point]bool{TurnStored: true, MessageStored: false} {
		victim := exec.CommandContext(t.Context(), "sleep", "1000")
		if err := victim.Start(); err != nil {
			t.Fatal(err)
		}
		trap := filepath.Join(t.TempDir(), "trap")
		if err := os.WriteFile(trap, fmt.Appendln(nil, point, victim.Process.Pid), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = []string{"CRASH_TEST_CHILD=1", TrapVariable + "=" + trap}
		if out, err := cmd.Output(); err != nil || string(out) != "once twice" {
			t.Errorf("%s: the process wrote %q and ended with %v", point, out, err)
		}
		if _, err := os.Stat(trap); os.IsNotExist(err) != springs {
			t.Errorf("%s: the trap's file: %v", point, err)
		}
		if !springs {
			_ = victim.Process.Signal(syscall.SIGTERM)
		}
		_ = victim.Wait()
		if got := victim.ProcessState.Sys().(syscall.WaitStatus).Signal(); (got == syscall.SIGKILL) != springs {
			t.Errorf("%s: the victim ended by %v", point, got)
		}
	}
}
