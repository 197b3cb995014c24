//go:build faults

package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kaged.dev/pkg/crash"
)

// kill -9 of the tool runner in the middle of a patch: when the next one serves, all files are unchanged, or, after the
// commit point, all are changed. In both cases no temporary file is left.
func TestKilledWhilePatching(t *testing.T) {
	t.Parallel()
	for plan, changed := range map[string]bool{
		string(crash.FilesStaged): false, string(crash.FileCommitted): false, string(crash.FileCommitted) + ":3": false,
		string(crash.FilesCommitted): true,
	} {
		t.Run(plan, func(t *testing.T) {
			t.Parallel()
			h := startHands(t, "KAGED_CRASH_AT="+plan)
			for _, name := range []string{"a.txt", "b.txt", "gone.txt"} {
				if err := os.WriteFile(filepath.Join(h.dir, name), []byte("old\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			before := files(t, h.dir)
			patch := "*** Begin Patch\n*** Update File: a.txt\n-old\n+new\n*** Update File: b.txt\n*** Move to: " +
				"dir/b.txt\n-old\n+new\n" +
				"*** Delete File: gone.txt\n*** Add File: dir/fresh.txt\n+new\n*** End Patch\n"
			if _, err := h.call(t, "edit.patch", map[string]any{"patch": patch}); err == nil {
				t.Fatal("the call was answered")
			}
			if _, code := h.runner.Rest(t); code != 128+int(syscall.SIGKILL) {
				t.Fatalf("the tool runner ended with %d instead of being killed", code)
			}
			h.startRunner(t)
			h.ask(t, "shell.process", map[string]any{"action": "list"})
			after := files(t, h.dir)
			if !changed && after != before {
				t.Errorf("left\n%s\nof\n%s", after, before)
			}
			if changed && (!strings.Contains(after, "a.txt: new\n") || !strings.Contains(after, "dir/b.txt: new\n") ||
				!strings.Contains(after, "dir/fresh.txt: new\n") ||
				strings.Contains(after, "gone") || strings.Contains(after, ".tmp")) {
				t.Errorf("left\n%s", after)
			}
		})
	}
}

// files returns the files and folders below a folder, one per line.
func files(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		b.WriteString(rel + ": ")
		if e.Type().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			b.Write(data)
		}
		b.WriteString("\n")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
