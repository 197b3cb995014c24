//go:build faults

package e2e_test

import (
	"syscall"
	"testing"

	"kaged.dev/pkg/crash"
	"kaged.dev/test/e2e/kagedtest"
)

// kill -9 of the tool runner while it starts a background process: the next one knows the process in every case and can
// end it, so that no process runs unknown.
func TestKilledWhileStartingAProcess(t *testing.T) {
	t.Parallel()
	for point, want := range map[crash.Point]string{crash.ProcessNoted: "lost", crash.ProcessStarted: "running"} {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			h := startHands(t, "KAGED_CRASH_AT="+string(point))
			if p, err := h.call(t, "shell.exec", map[string]any{
				"command": stubborn, "background": true, "env": map[string]string{"MARK": h.dir},
			}); err == nil {
				t.Fatalf("the call was answered with %+v", p)
			}
			if _, code := h.runner.Rest(t); code != 128+int(syscall.SIGKILL) {
				t.Fatalf("the tool runner ended with %d instead of being killed", code)
			}
			h.startRunner(t)
			list := h.ask(t, "shell.process", map[string]any{"action": "list"}).Processes
			if len(list) != 1 || list[0].Status != want {
				t.Fatalf("known are %+v, want one that is %s", list, want)
			}
			if want == "running" {
				h.until(t, list[0].ID, "up")
			}
			if p := h.ask(t, "shell.process", map[string]any{
				"action":     "kill",
				"process_id": list[0].ID,
			}); p.Status == "running" {
				t.Errorf("killed it is %+v", p)
			}
			kagedtest.Eventually(t, "nothing runs", func() bool { return len(h.commands(t)) == 0 })
		})
	}
}
