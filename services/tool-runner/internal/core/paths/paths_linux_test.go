package paths_test

import (
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/tool-runner/internal/core/paths"
)

// A folder that becomes a link between the decision and the act makes the act fail; it never leads outside.
func TestLinksPutInPlaceLater(t *testing.T) {
	root, space := project(t, paths.Rules{})
	outside := filepath.Join(filepath.Dir(root), "outside")
	for _, dir := range []string{outside, filepath.Join(root, "dir"), filepath.Join(root, "spare")} {
		must(t, os.MkdirAll(dir, 0o755))
		must(t, os.WriteFile(filepath.Join(dir, "f"), []byte(filepath.Base(dir)), 0o644))
	}
	must(t, os.Symlink(outside, filepath.Join(root, "link")))
	stop := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		at := func(n string) string { return filepath.Join(root, n) }
		for {
			select {
			case <-stop:
				return
			default:
			}
			os.Rename(at("dir"), at("kept"))
			os.Rename(at("link"), at("dir"))
			os.Rename(at("dir"), at("link"))
			os.Rename(at("kept"), at("dir"))
		}
	})
	for range 400 {
		p, err := space.Resolve("path", "dir/f")
		if err != nil {
			continue
		}
		if f, _, err := p.Open(); err == nil {
			content, _ := io.ReadAll(f)
			f.Close()
			if string(content) == "outside" {
				t.Fatal("read what is outside")
			}
		}
		_ = p.Join("x").Create([]byte("written"))
		if q, err := space.Resolve("path", "dir/new"); err == nil {
			_ = q.Replace([]byte("written"))
		}
	}
	close(stop)
	swapping.Wait()
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
		t.Errorf("outside holds %v, %v", entries, err)
	}
}

// Where files cannot exchange their names the same comes of a set of changes, and what stands in their way is as safe.
func TestApplyWithoutRenameat2(t *testing.T) {
	root, space := project(t, paths.Rules{Journal: journal(t)})
	defer paths.WithoutRenameat2()()
	for _, name := range []string{"edit", "gone", "old"} {
		must(t, os.WriteFile(filepath.Join(root, name), []byte(name), 0o644))
	}
	edit, wasEdit := at(t, space, "edit")
	gone, wasGone := at(t, space, "gone")
	old, wasOld := at(t, space, "old")
	moved, _ := at(t, space, "new/moved")
	fresh, _ := at(t, space, "fresh")
	changes := []paths.Change{
		{At: edit, Was: wasEdit, Data: []byte("edited")},
		{At: gone, Was: wasGone, Remove: true},
		{At: old, Was: wasOld, Move: &moved},
		{At: fresh, Data: []byte("fresh")},
	}
	before := tree(t, root)
	err := paths.ApplyWith(changes, func(step int) {
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
	must(t, paths.Apply(changes...))
	if got := tree(t, root); len(got) != 5 || got["edit"] != `-rw-r--r-- "edited"` || got["new/moved"] != `-rw-r--r-- "old"` || !strings.HasSuffix(got["fresh"], `"fresh"`) {
		t.Errorf("left %v", got)
	}
}

// An exchange by links that is cut off anywhere loses neither file.
func TestCompleteExchange(t *testing.T) {
	t.Parallel()
	const a, b = ".kaged-x-0.tmp", "file"
	for name, c := range map[string]struct{ before, after map[string]string }{
		"not begun":       {map[string]string{a: "new", b: "old"}, map[string]string{a: "new", b: "old"}},
		"moved aside":     {map[string]string{a: "new", "aside": "old"}, map[string]string{a: "new", b: "old"}},
		"linked aside":    {map[string]string{a: "new", b: "old", "aside": "link to b"}, map[string]string{a: "new", b: "old"}},
		"took the place":  {map[string]string{b: "new", "aside": "old"}, map[string]string{a: "old", b: "new"}},
		"somebody's file": {map[string]string{a: "new", b: "theirs", "aside": "old"}, map[string]string{a: "new", b: "theirs", "aside": "old"}},
	} {
		dir := t.TempDir()
		full := func(n string) string {
			if n == "aside" {
				n = paths.AsideOf(a)
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
		must(t, paths.CompleteExchange(int(f.Fd()), a, b))
		f.Close()
		for _, n := range []string{a, b, "aside"} {
			data, err := os.ReadFile(full(n))
			if string(data) != c.after[n] || (err != nil) != (c.after[n] == "") {
				t.Errorf("%s: %s holds %q, %v", name, n, data, err)
			}
		}
	}
}
