package box_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What leads to a grant in one of the box's own folders is read-only, as it is elsewhere: what is written beside a grant
// would seem to be the project's, and be lost.
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
	out, end := run(t, b, deep, `for d in "$PWD" /tmp .. ../.. ../../..; do touch $d/x 2>/dev/null && echo yes || echo no; done; mv ../../a ../../c && echo moved`)
	if out := strings.Fields(out); strings.Join(out[:5], " ") != "yes yes no no no" || strings.Contains(strings.Join(out, " "), "moved") || end.Lost {
		t.Errorf("it wrote %q", out)
	}
}
