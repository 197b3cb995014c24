package change_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/workspace/change"
)

// Where files cannot exchange their names, a set of changes gives the same result, and files in its
// way are as safe.
func TestApplyWithoutRenameat2(t *testing.T) {
	root, space := project(t)
	w := writer(t)
	defer change.WithoutRenameat2()()
	for _, name := range []string{"edit", "gone", "old"} {
		must(t, os.WriteFile(filepath.Join(root, name), []byte(name), 0o644))
	}
	edit, wasEdit := at(t, space, "edit")
	gone, wasGone := at(t, space, "gone")
	old, wasOld := at(t, space, "old")
	moved, _ := at(t, space, "new/moved")
	fresh, _ := at(t, space, "fresh")
	changes := []change.Change{
		{At: edit, Was: wasEdit, Data: []byte("edited")},
		{At: gone, Was: wasGone, Remove: true},
		{At: old, Was: wasOld, Move: &moved},
		{At: fresh, Data: []byte("fresh")},
	}
	before := tree(t, root)
	err := w.ApplyWith(changes, func(step int) {
		if step == 3 {
			must(t, os.WriteFile(filepath.Join(root, "fresh"), []byte("theirs"), 0o644))
		}
	})
	got := tree(t, root)
	if !errors.Is(err, fault.FileExists) || !strings.HasSuffix(got["fresh"], `"theirs"`) {
		t.Errorf("%v leaves %v", err, got)
	}
	delete(got, "fresh")
	if !maps.Equal(got, before) {
		t.Errorf("%v became %v", before, got)
	}
	must(t, os.Remove(filepath.Join(root, "fresh")))
	must(t, w.Apply(changes...))
	if got := tree(t, root); len(got) != 5 || got["edit"] != `-rw-r--r-- "edited"` ||
		got["new/moved"] != `-rw-r--r-- "old"` ||
		!strings.HasSuffix(got["fresh"], `"fresh"`) {
		t.Errorf("left %v", got)
	}
}

// An exchange by links that is cut off anywhere loses neither file.
func TestCompleteExchange(t *testing.T) {
	t.Parallel()
	const a, b = ".kaged-x-0.tmp", "file"
	for name, c := range map[string]struct{ before, after map[string]string }{
		"not begun":   {map[string]string{a: "new", b: "old"}, map[string]string{a: "new", b: "old"}},
		"moved aside": {map[string]string{a: "new", "aside": "old"}, map[string]string{a: "new", b: "old"}},
		"linked aside": {
			map[string]string{a: "new", b: "old", "aside": "link to b"}, map[string]string{a: "new", b: "old"},
		},
		"took the place": {map[string]string{b: "new", "aside": "old"}, map[string]string{a: "old", b: "new"}},
		"somebody's file": {
			map[string]string{a: "new", b: "theirs", "aside": "old"}, map[string]string{a: "new", b: "theirs", "aside": "old"},
		},
	} {
		dir := t.TempDir()
		full := func(n string) string {
			if n == "aside" {
				n = change.AsideOf(a)
			}
			return filepath.Join(dir, n)
		}
		for n, content := range c.before {
			if content != "link to b" {
				must(t, os.WriteFile(full(n), []byte(content), 0o644))
			}
		}
		if c.before["aside"] == "link to b" {
			must(t, os.Link(full(b), full("aside")))
		}
		f, err := os.Open(dir)
		must(t, err)
		must(t, change.CompleteExchange(int(f.Fd()), a, b))
		f.Close()
		for _, n := range []string{a, b, "aside"} {
			data, err := os.ReadFile(full(n))
			if string(data) != c.after[n] || (err != nil) != (c.after[n] == "") {
				t.Errorf("%s: %s holds %q, %v", name, n, data, err)
			}
		}
	}
}
