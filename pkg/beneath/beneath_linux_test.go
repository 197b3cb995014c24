package beneath_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/beneath"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func folder(t *testing.T) (name string, fd int) {
	t.Helper()
	name = t.TempDir()
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	return name, fd
}

type open func(dir int, rel string, flags int, mode uint32) (int, error)

var ways = map[string]open{"openat2": beneath.Open, "walking": beneath.Walk}

// Open opens a path below a folder, with openat2 and without, and follows no link and no path out of the folder.
func TestOpen(t *testing.T) {
	t.Parallel()
	name, dir := folder(t)
	must(t, os.MkdirAll(filepath.Join(name, "a/b"), 0o711))
	must(t, os.WriteFile(filepath.Join(name, "a/b/f"), []byte("x"), 0o644))
	for link, target := range map[string]string{
		"to-folder": "a", "to-file": "a/b/f", "a/up": "..", "absolute": name + "/a/b/f",
	} {
		must(t, os.Symlink(target, filepath.Join(name, link)))
	}
	for way, open := range ways {
		for rel, ok := range map[string]bool{
			"a": true, "a/b": true, "a/b/f": true, ".": true, "a/none": false, "a/b/f/x": false, "to-folder": false,
			"to-file": false, "to-folder/b/f": false,
			"a/up/a": false, "absolute": false, "..": false, "a/../..": false, "../x": false, name: false, "": false,
		} {
			for _, flags := range []int{unix.O_RDONLY, beneath.Path} {
				fd, err := open(dir, rel, flags|unix.O_CLOEXEC, 0)
				if err == nil {
					unix.Close(fd)
				}
				if (err == nil) != ok {
					t.Errorf("%s: %q with flags %#x: %v", way, rel, flags, err)
				}
			}
		}
	}
}

// If a folder becomes a link to a folder outside, the opening fails and does not follow the link.
func TestLinksPutInPlaceMeanwhile(t *testing.T) {
	t.Parallel()
	for way, open := range ways {
		name, dir := folder(t)
		outside := t.TempDir()
		for folder, content := range map[string]string{outside: "outside", filepath.Join(name, "dir"): "inside"} {
			must(t, os.MkdirAll(folder, 0o755))
			must(t, os.WriteFile(filepath.Join(folder, "f"), []byte(content), 0o644))
		}
		must(t, os.Symlink(outside, filepath.Join(name, "link")))
		stop := make(chan struct{})
		var swapping sync.WaitGroup
		swapping.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_ = unix.Renameat2(dir, "dir", dir, "link", unix.RENAME_EXCHANGE)
				}
			}
		})
		inside := 0
		for try := 0; try < 2000 || inside == 0; try++ { // under load the link may last for thousands of tries
			fd, err := open(dir, "dir/f", unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				continue
			}
			var text [16]byte
			n, err := unix.Read(fd, text[:])
			unix.Close(fd)
			if err != nil || string(text[:n]) != "inside" {
				t.Fatalf("%s: read %q, %v", way, text[:n], err)
			}
			inside++
		}
		close(stop)
		swapping.Wait()
	}
}
