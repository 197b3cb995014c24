package change_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/workspace/change"
)

// Read returns the whole content of a regular file with its version, of a file over the limit the version, and fails
// for everything else without waiting.
func TestRead(t *testing.T) {
	t.Parallel()
	root, space := project(t)
	must(t, os.WriteFile(filepath.Join(root, "f"), []byte("text"), 0o644))
	must(t, os.WriteFile(filepath.Join(root, "empty"), nil, 0o644))
	must(t, os.Mkdir(filepath.Join(root, "folder"), 0o755))
	must(t, unix.Mkfifo(filepath.Join(root, "pipe"), 0o644))
	for _, c := range []struct {
		name, content string
		most          int64
		err           error
	}{
		{"f", "text", 4, nil},
		{"f", "", 3, nil},
		{"empty", "", 4, nil},
		{"folder", "", 4, fault.FileNotRegular},
		{"pipe", "", 4, fault.FileNotRegular},
		{"none", "", 4, fault.FileNotFound},
	} {
		p, err := space.Resolve("path", c.name)
		must(t, err)
		data, was, err := change.Read(p, c.most, nil)
		if string(data) != c.content || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v", c.name, data, err)
		}
		if _, version := at(t, space, "f"); c.name == "f" && was != version {
			t.Errorf("%s: version %v, want %v", c.name, was, version)
		}
	}
	// What a path names may have become something else since it was resolved.
	p, err := space.Resolve("path", "f")
	must(t, err)
	must(t, os.Remove(filepath.Join(root, "f")))
	must(t, unix.Mkfifo(filepath.Join(root, "f"), 0o644))
	if _, _, err := change.Read(p, 4, nil); !errors.Is(err, fault.FileNotRegular) {
		t.Errorf("a pipe in the place of a file: %v", err)
	}
}
