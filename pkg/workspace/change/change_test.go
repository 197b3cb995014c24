package change_test

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/workspace/change"
	"kaged.dev/pkg/workspace/paths"
)

// tree returns the contents below a folder: contents and modes of files, targets of links, and
// folders.
func tree(t failer, root string) map[string]string {
	found := map[string]string{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, name)
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			found[rel] = "folder"
		case info.Mode().IsRegular():
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			found[rel] = fmt.Sprintf("%v %q", info.Mode(), data)
		default:
			found[rel] = info.Mode().String()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

type failer interface{ Fatal(...any) }

// at resolves a path that must resolve, and returns its present version.
func at(t failer, space *paths.Space, name string) (paths.Path, change.Version) {
	p, err := space.Resolve("path", name)
	if err != nil {
		t.Fatal(err)
	}
	f, info, err := p.OpenFile()
	if errors.Is(err, fault.FileNotFound) {
		return p, change.Version{}
	}
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	return p, change.VersionOf(info)
}

// Files are made, replaced, removed and moved together; modes stay and no temporary file is left
// behind.
func TestApply(t *testing.T) {
	t.Parallel()
	root, space := project(t)
	w := writer(t)
	for name, mode := range map[string]fs.FileMode{
		"edit": 0o751, "gone": 0o600, "old/moved": 0o640, "both": 0o755 | fs.ModeSetuid, "swapped": 0o644,
	} {
		must(t, os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755))
		must(t, os.WriteFile(filepath.Join(root, name), []byte(name), 0o600))
		must(t, os.Chmod(filepath.Join(root, name), mode))
	}
	edit, wasEdit := at(t, space, "edit")
	gone, wasGone := at(t, space, "gone")
	old, wasOld := at(t, space, "old/moved")
	both, wasBoth := at(t, space, "both")
	moved, _ := at(t, space, "new/deep/moved")
	bothTo, _ := at(t, space, "new/both")
	fresh, _ := at(t, space, "new/deep/fresh")
	like, _ := at(t, space, "like")
	swapped, wasSwapped := at(t, space, "swapped")
	must(t, w.Apply(
		change.Change{At: edit, Was: wasEdit, Data: []byte("edited")},
		change.Change{At: gone, Was: wasGone, Remove: true},
		change.Change{At: old, Was: wasOld, Move: &moved},
		change.Change{At: both, Was: wasBoth, Move: &bothTo, Data: []byte("both changed")},
		change.Change{At: fresh, Data: []byte("fresh")},
		change.Change{At: like, Data: []byte{}, Like: &edit},
		change.Change{At: swapped, Was: wasSwapped, Data: []byte("swapped"), Like: &gone},
	))
	want := map[string]string{
		".": "folder", "old": "folder", "new": "folder", "new/deep": "folder",
		"edit": `-rwxr-x--x "edited"`, "like": `-rwxr-x--x ""`, "swapped": `-rw------- "swapped"`,
		"new/both":       `urwxr-xr-x "both changed"`,
		"new/deep/moved": `-rw-r----- "old/moved"`, "new/deep/fresh": tree(t, root)["new/deep/fresh"],
	}
	if got := tree(t, root); !maps.Equal(got, want) || !strings.HasSuffix(got["new/deep/fresh"], `"fresh"`) {
		t.Errorf("left %v", got)
	}
}

// project returns an empty folder and its space.
func project(t testing.TB) (string, *paths.Space) {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	root = filepath.Join(root, "project")
	must(t, os.Mkdir(root, 0o755))
	space, err := paths.Open(root, paths.Rules{})
	must(t, err)
	t.Cleanup(space.Close)
	return root, space
}

func must(t failer, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

// writer returns a writer with a journal.
func writer(t testing.TB) *change.Writer {
	j := change.NewJournal(filepath.Join(t.TempDir(), "journal"))
	t.Cleanup(j.Close)
	return change.NewWriter(j, nil)
}

// drawChanges draws up to 16 changes of files below root, enough for several goroutines, and makes the files that they
// change.
func drawChanges(t *rapid.T, root string, space *paths.Space) []change.Change {
	var changes []change.Change
	n := rapid.IntRange(1, 16).Draw(t, "changes")
	for i := range n {
		name := fmt.Sprintf("%s/f%d", rapid.SampledFrom([]string{".", "a", "a/b", "c"}).Draw(t, "folder"), i)
		kind := rapid.SampledFrom([]string{"create", "replace", "linked", "remove", "move", "move and edit"}).Draw(t, "kind")
		full := filepath.Join(root, name)
		if kind != "create" {
			must(t, os.MkdirAll(filepath.Dir(full), 0o755))
			must(t, os.WriteFile(full, []byte("old "+name), 0o644))
		}
		if kind == "linked" {
			must(t, os.Link(full, filepath.Join(root, fmt.Sprintf("other%d", i))))
		}
		p, was := at(t, space, name)
		c := change.Change{At: p, Was: was}
		switch kind {
		case "remove":
			c.Remove = true
		case "move", "move and edit":
			to, _ := at(t, space, fmt.Sprintf("new%d/deep/f", i%2)+fmt.Sprint(i))
			c.Move = &to
		}
		if !c.Remove && kind != "move" {
			c.Data = []byte("new " + name)
		}
		changes = append(changes, c)
	}
	return changes
}

// After a failure of any kind at any step, all files are as before, and changes by others meanwhile
// stay.
func TestApplyAllOrNothing(t *testing.T) {
	t.Parallel()
	root, space := project(t)
	w := writer(t)
	rapid.Check(t, func(t *rapid.T) {
		entries, err := os.ReadDir(root)
		must(t, err)
		for _, e := range entries {
			must(t, os.RemoveAll(filepath.Join(root, e.Name())))
		}
		changes := drawChanges(t, root, space)
		n := len(changes)
		victim := changes[rapid.IntRange(0, n-1).Draw(t, "victim")]
		full := filepath.Join(root, victim.At.Rel)
		spoil := func() {
			switch {
			case victim.Move != nil && rapid.Bool().Draw(t, "target"):
				full = filepath.Join(root, victim.Move.Rel)
				must(t, os.MkdirAll(filepath.Dir(full), 0o755))
				must(t, os.WriteFile(full, []byte("somebody else's"), 0o644))
			case victim.Was != (change.Version{}) && rapid.Bool().Draw(t, "removed"):
				must(t, os.Remove(full))
			default:
				must(t, os.MkdirAll(filepath.Dir(full), 0o755))
				must(t, os.WriteFile(full, []byte("somebody else's"), 0o644))
			}
		}
		when := rapid.IntRange(-1, n).Draw(t, "when")
		var before map[string]string
		if when < 0 {
			spoil()
			before = tree(t, root)
		}
		spoiled := when < 0
		before0 := tree(t, root)
		err = w.ApplyWith(changes, func(step int) {
			// The step that is spoiled must be still to come.
			if step == when && !spoiled && pending(changes, victim, step) {
				spoil()
				spoiled = true
			}
		})
		if !spoiled {
			if err != nil {
				t.Fatalf("nothing was wrong, and yet: %v", err)
			}
			return
		}
		if err == nil {
			t.Fatal("it succeeded")
		}
		if code := fault.CodeOf(err); code != fault.FileChangedSinceRead && code != fault.FileExists {
			t.Fatalf("failed with %v", err)
		}
		got := tree(t, root)
		if before == nil {
			// Only the spoiled file may differ from before.
			before = before0
			rel, _ := filepath.Rel(root, full)
			for dir := rel; dir != "."; dir = filepath.Dir(dir) {
				delete(before, dir)
				delete(got, dir)
			}
			for i := range n {
				// A hard link shares the content written to its file.
				delete(before, fmt.Sprintf("other%d", i))
				delete(got, fmt.Sprintf("other%d", i))
			}
		}
		if !maps.Equal(got, before) {
			t.Fatalf("%v\nwas %v\n", got, before)
		}
	})
}

// pending reports whether the victim's first step is still to come before step; moves that edit are two steps.
func pending(changes []change.Change, victim change.Change, step int) bool {
	at := 0
	for _, c := range changes {
		if c.At == victim.At {
			return at >= step
		}
		at++
		if c.Move != nil && c.Data != nil {
			at++
		}
	}
	return false
}

// A file with several names keeps them, under each name it is changed by.
func TestHardLinksStay(t *testing.T) {
	t.Parallel()
	root, space := project(t)
	name, other := filepath.Join(root, "f"), filepath.Join(root, "g")
	must(t, os.WriteFile(name, []byte("a long old content"), 0o644))
	must(t, os.Chmod(name, 0o755|fs.ModeSetuid))
	must(t, os.Link(name, other))
	p, _ := at(t, space, "g")
	must(t, writer(t).Replace(p, []byte("short")))
	a, err := os.Stat(name)
	must(t, err)
	b, err := os.Stat(other)
	must(t, err)
	data, err := os.ReadFile(name)
	if !os.SameFile(a, b) || string(data) != "short" || err != nil || a.Mode() != 0o755|fs.ModeSetuid {
		t.Errorf("%q with mode %v, the same file: %v, %v", data, a.Mode(), os.SameFile(a, b), err)
	}
	if left := tree(t, root); len(left) != 3 {
		t.Errorf("left %v", left)
	}
}

// Extended attributes and the owner stay with the name.
func TestAttributesStay(t *testing.T) {
	t.Parallel()
	root, space := project(t)
	name := filepath.Join(root, "f")
	must(t, os.WriteFile(name, []byte("old"), 0o640))
	must(t, unix.Setxattr(name, "user.kaged", []byte("kept"), 0))
	if os.Getuid() == 0 {
		must(t, os.Chown(name, 1234, 4321))
	}
	p, _ := at(t, space, "f")
	must(t, writer(t).Replace(p, []byte("new")))
	value := make([]byte, 10)
	n, err := unix.Getxattr(name, "user.kaged", value)
	var st unix.Stat_t
	must(t, unix.Stat(name, &st))
	if err != nil || string(value[:n]) != "kept" || st.Mode&0o777 != 0o640 ||
		os.Getuid() == 0 && (st.Uid != 1234 || st.Gid != 4321) {
		t.Errorf("%q, %v, %o of %d:%d", value[:n], err, st.Mode, st.Uid, st.Gid)
	}
}

// Changes of a living process are left alone; half-made ones of a dead process are taken back.
func TestRecoverLeavesTheLivingAlone(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "journal")
	j := change.NewJournal(dir)
	w := change.NewWriter(j, nil)
	root, space := project(t)
	p, _ := at(t, space, "f")
	must(t, w.Create(p, []byte("old")))
	p, was := at(t, space, "f")
	log := slog.New(slog.DiscardHandler)
	must(t, w.ApplyWith([]change.Change{{At: p, Was: was, Data: []byte("new")}}, func(int) { change.Recover(dir, log) }))
	if data, err := os.ReadFile(filepath.Join(root, "f")); string(data) != "new" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
	j.Close()
	if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
		t.Errorf("left %v, %v", left, err)
	}
	// A corrupt journal, or one of projects that are gone, hinders no other process.
	must(
		t,
		os.WriteFile(
			filepath.Join(dir, "a.journal"),
			[]byte("nonsense\n{\"set\":\"x\",\"state\":\"staged\",\"steps\":[{}]}\n{\"set\":"),
			0o600,
		),
	)
	must(t, os.WriteFile(filepath.Join(dir, "other"), nil, 0o600))
	change.Recover(dir, log)
	names, err := os.ReadDir(dir)
	if err != nil || slices.ContainsFunc(names, func(e fs.DirEntry) bool { return e.Name() == "a.journal" }) {
		t.Errorf("left %v, %v", names, err)
	}
}

// The journal does not grow with the number of changes.
func TestJournalIsBounded(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "journal")
	j := change.NewJournal(dir)
	defer j.Close()
	w := change.NewWriter(j, nil)
	_, space := project(t)
	p, _ := at(t, space, "f")
	for i := range 600 {
		must(t, w.Replace(p, []byte{byte(i)}))
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatal(entries, err)
	}
	info, err := entries[0].Info()
	if err != nil || info.Size() > 512<<10 {
		t.Errorf("%d bytes, %v", info.Size(), err)
	}
}

// A replacement has the old file's mode and owner; a new file obeys the umask; no temporary file is
// left.
func TestReplace(t *testing.T) {
	t.Parallel()
	root, space := project(t)
	for _, mode := range []fs.FileMode{0o600, 0o755, 0o755 | fs.ModeSetuid} {
		name := filepath.Join(root, "f")
		must(t, os.WriteFile(name, []byte("old"), 0o644))
		must(t, os.Chmod(name, mode))
		before, err := os.Stat(name)
		must(t, err)
		p, err := space.Resolve("path", "f")
		must(t, err)
		must(t, writer(t).Replace(p, []byte("new")))
		after, err := os.Stat(name)
		must(t, err)
		if after.Mode() != before.Mode() {
			t.Errorf("mode %v became %v", before.Mode(), after.Mode())
		}
	}
	entries, err := os.ReadDir(root)
	if err != nil || len(entries) != 1 {
		t.Errorf("left %v, %v", entries, err)
	}
}
