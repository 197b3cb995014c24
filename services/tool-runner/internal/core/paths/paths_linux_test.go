package paths_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
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
	for name, prepare := range map[string]func() func(){"openat2": func() func() { return func() {} }, "walking": paths.WithoutOpenat2} {
		restore := prepare()
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
					t.Fatalf("%s: read what is outside", name)
				}
			}
			_ = p.Join("x").Create([]byte("written"))
			if q, err := space.Resolve("path", "dir/new"); err == nil {
				_ = q.Replace([]byte("written"))
			}
		}
		close(stop)
		swapping.Wait()
		restore()
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
		t.Errorf("outside holds %v, %v", entries, err)
	}
}

// Without openat2 the same is opened and the same refused.
func TestWalkingOpens(t *testing.T) {
	root, space := project(t, paths.Rules{})
	must(t, os.MkdirAll(filepath.Join(root, "a/b"), 0o711))
	must(t, os.WriteFile(filepath.Join(root, "a/b/f"), []byte("x"), 0o644))
	defer paths.WithoutOpenat2()()
	for name, want := range map[string]error{"a/b/f": nil, "a/b": nil, ".": nil, "a/none": fault.FileNotFound, "a/b/f/x": fault.FileNotFound} {
		p, err := space.Resolve("path", name)
		must(t, err)
		f, _, err := p.Open()
		if want == nil && err == nil {
			f.Close()
		} else if !errors.Is(err, want) || want == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	p, err := space.Resolve("path", "a/new/deep/f")
	must(t, err)
	must(t, p.Create([]byte("y")))
	if data, err := os.ReadFile(filepath.Join(root, "a/new/deep/f")); err != nil || string(data) != "y" {
		t.Errorf("%q, %v", data, err)
	}
}
