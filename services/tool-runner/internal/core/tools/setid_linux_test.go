package tools_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/dsl"
)

// A program that runs with the rights of its owner loses them when a caged agent changes it, as when a shell in the
// cage writes to it: the tools have the owner's rights, and the system would let them keep the bits. An agent without
// a cage has these rights itself, and keeps them.
func TestSetIDsInACage(t *testing.T) {
	t.Parallel()
	// Version 2 of a capability, CAP_SETUID, effective.
	setUID := []byte{1, 0, 0, 2, 1 << unix.CAP_SETUID, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	for _, c := range []struct {
		name string
		cage *dsl.Cage
		kept bool
	}{
		{"caged", &dsl.Cage{FS: []dsl.Mount{{Mode: "rw", Path: "."}}}, false},
		{"uncaged", nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.from.Cage = c.cage
			isRoot := os.Getuid() == 0
			for _, name := range []string{"written", "edited", "linked", "moved"} {
				path := b.write(name, "old\n")
				if err := os.Chmod(path, 0o755|fs.ModeSetuid|fs.ModeSetgid); err != nil {
					t.Fatal(err)
				}
				if isRoot {
					if err := unix.Setxattr(path, "security.capability", setUID, 0); err != nil {
						t.Fatal(err)
					}
				}
				b.read(name)
			}
			if err := os.Link(filepath.Join(b.root, "linked"), filepath.Join(b.root, "other")); err != nil {
				t.Fatal(err)
			}
			b.ok("file.write", in{"path": "written", "content": "new\n"}, nil)
			b.ok("edit.text", in{"path": "edited", "old_string": "old", "new_string": "new"}, nil)
			b.ok("file.write", in{"path": "linked", "content": "new\n"}, nil)
			b.ok("edit.patch", in{"patch": "*** Begin Patch\n*** Update File: moved\n*** Move to: new/moved\n" +
				"@@\n-old\n+new\n*** End Patch"}, nil)
			for _, name := range []string{"written", "edited", "linked", "other", "new/moved"} {
				path := filepath.Join(b.root, name)
				info, err := os.Stat(path)
				if err != nil {
					t.Fatal(err)
				}
				bits := info.Mode() & (fs.ModeSetuid | fs.ModeSetgid)
				if b.content(name) != "new\n" || info.Mode().Perm() != 0o755 || (bits != 0) != c.kept {
					t.Errorf("%s has mode %v and %q", name, info.Mode(), b.content(name))
				}
				_, err = unix.Getxattr(path, "security.capability", make([]byte, 64))
				if isRoot && !c.kept && !errors.Is(err, unix.ENODATA) {
					t.Errorf("%s has capabilities: %v", name, err)
				}
			}
		})
	}
}
