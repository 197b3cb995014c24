package watch_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kaged.dev/services/lsp-pool/internal/lsp"
)

// If the kernel drops events, because its queue is full, the files are compared, and no change is missed.
func TestOverflow(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	if err != nil {
		t.Fatal(err)
	}
	room, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	root, w := tree(t)
	write := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("removed")
	w.Changes(t.Context())
	resume := w.Pause()
	for i := range room/2 + 1 { // each write has two events or more, and equal events in a row are one
		write(strconv.Itoa(i % 2))
	}
	write("dropped")
	if err := os.Remove(filepath.Join(root, "removed")); err != nil {
		t.Fatal(err)
	}
	resume()
	got := w.Changes(t.Context())
	for _, want := range []lsp.Change{
		{Path: filepath.Join(root, "dropped"), Kind: lsp.Created}, {Path: filepath.Join(root, "removed"), Kind: lsp.Deleted},
	} {
		if !slices.Contains(got, want) {
			t.Errorf("%v is missing in %v", want, got)
		}
	}
}
