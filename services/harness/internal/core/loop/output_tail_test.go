package loop

import (
	"strings"
	"testing"
)

// The tail holds a short output whole. Of a long one it holds the last lines, and says that others are missing.
func TestOutputTail(t *testing.T) {
	t.Parallel()
	var short, long, line outputTail
	short.add("a\n")
	short.add("b")
	if got := short.String(); got != "a\nb" {
		t.Errorf("short: %q", got)
	}
	for range 10_000 {
		long.add("tick\n")
	}
	got := long.String()
	if !strings.HasPrefix(got, "[...]\ntick\ntick\n") || !strings.HasSuffix(got, "\ntick\n") || len(got) > tailMax+6 {
		t.Errorf("long: %d bytes, %.20q", len(got), got)
	}
	line.add(strings.Repeat("ä", tailMax))
	if got := line.String(); !strings.HasPrefix(got, "[...]\nä") || len(got) != tailMax+6 {
		t.Errorf("one long line: %d bytes, %.20q", len(got), got)
	}
}
