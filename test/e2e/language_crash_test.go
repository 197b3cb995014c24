//go:build faults

package e2e_test

import (
	"strings"
	"syscall"
	"testing"

	"kaged.dev/pkg/crash"
	"kaged.dev/test/e2e/kagedtest"
)

// kill -9 of the tool runner in the middle of a rename: when the next one serves, all files have the old name, or,
// after the commit point of the rename, all have the new one.
func TestKilledWhileRenaming(t *testing.T) {
	t.Parallel()
	for plan, renamed := range map[string]bool{
		string(crash.FilesStaged): false, string(crash.FileCommitted): false, string(crash.FileCommitted) + ":2": false,
		string(crash.FilesCommitted): true,
	} {
		t.Run(plan, func(t *testing.T) {
			t.Parallel()
			h := startHands(t)
			kagedtest.Command(t, "lsp-pool", h.Env)
			h.serves(t, "lsp-pool")
			h.runner.Kill()
			<-h.runner.Done()
			h.startRunner(t, "KAGED_CRASH_AT="+plan)
			for path, content := range shapes {
				kagedtest.Write(t, h.dir, "shapes/"+path, content)
			}
			before := files(t, h.dir)
			_, err := h.call(t, "code.lsp", map[string]any{
				"action": "rename", "path": "shapes/shape.go", "line": 5, "symbol": "Size", "new_name": "Extent",
			})
			if err == nil {
				t.Fatal("the call was answered")
			}
			if _, code := h.runner.Rest(t); code != 128+int(syscall.SIGKILL) {
				t.Fatalf("the tool runner ended with %d instead of being killed", code)
			}
			h.startRunner(t)
			h.ask(t, "shell.process", map[string]any{"action": "list"})
			after := files(t, h.dir)
			if !renamed && after != before {
				t.Errorf("left\n%s\nof\n%s", after, before)
			}
			if renamed && (strings.Count(after, "Extent()") != 4 || strings.Contains(after, "Size()")) {
				t.Errorf("left\n%s", after)
			}
		})
	}
}
