package paths_test

import (
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"kaged.dev/pkg/workspace/change"
	"kaged.dev/pkg/workspace/paths"
)

// A folder that becomes a link between the decision and the act makes the act fail; it never leads outside.
func TestLinksPutInPlaceLater(t *testing.T) {
	w := change.NewWriter(nil, nil)
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
		_ = w.Create(p.Join("x"), []byte("written"))
		if q, err := space.Resolve("path", "dir/new"); err == nil {
			_ = w.Replace(q, []byte("written"))
		}
	}
	close(stop)
	swapping.Wait()
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
		t.Errorf("outside holds %v, %v", entries, err)
	}
}
