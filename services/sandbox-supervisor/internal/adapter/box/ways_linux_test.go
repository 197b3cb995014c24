package box_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The parents of a grant inside a private folder are read-only, as elsewhere: a file written beside the grant would
// seem to be the project's, and be lost.
func TestWaysToGrants(t *testing.T) {
	t.Parallel()
	dir := project(t)
	if !strings.HasPrefix(dir, "/tmp/") {
		t.Fatalf("%s is not in a folder of which boxes have their own", dir)
	}
	deep := filepath.Join(dir, "a", "b")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	b := open(t, boxes(t), rw(deep))
	out, end := run(t, b, deep,
		`for d in "$PWD" /tmp .. ../.. ../../..; do touch $d/x 2>/dev/null && echo yes || echo no; done; `+
			`mv ../../a ../../c && echo moved`)
	lines := strings.Fields(out)
	if strings.Join(lines[:5], " ") != "yes yes no no no" || strings.Contains(out, "moved") || end.Lost {
		t.Errorf("it wrote %q", lines)
	}
}
