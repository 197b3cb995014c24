package ignore

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A small index cannot hold names that take more memory than there is: each of these is one byte longer than the one before.
func TestIndexNamesAreBounded(t *testing.T) {
	t.Parallel()
	const count = 200_000
	data := binary.BigEndian.AppendUint32([]byte("DIRC\x00\x00\x00\x04"), count)
	for range count {
		data = append(data, make([]byte, entryStat+sha1Size+2)...)
		data = append(data, 0, 'a', 0) // nothing of the last name goes, an a comes
	}
	names, _ := parseIndex(append(data, make([]byte, sha1Size)...), sha1Size)
	if len(names) != maxName || len(names[maxName-1]) != maxName {
		t.Errorf("%d names", len(names))
	}
	if names, _ := parseIndex(append([]byte("DIRC\x00\x00\x00\x02\xff\xff\xff\xff"), make([]byte, 1<<20)...), sha1Size); len(names) > 0 {
		t.Errorf("%d names in nothing", len(names))
	}
}

// Whatever stands in an index, reading it ends, and what it yields can be asked about.
func FuzzIndex(f *testing.F) {
	dir := f.TempDir()
	for _, version := range []string{"2", "3", "4"} {
		repo := filepath.Join(dir, version)
		if err := os.MkdirAll(filepath.Join(repo, "a"), 0o755); err != nil {
			f.Fatal(err)
		}
		for _, name := range []string{"a/b.c", "a/b.d", "z"} {
			if err := os.WriteFile(filepath.Join(repo, name), []byte(name), 0o644); err != nil {
				f.Fatal(err)
			}
		}
		for _, args := range [][]string{{"init", "-q"}, {"add", "a"}, {"update-index", "--index-version", version}, {"add", "-N", "z"}} {
			if out, err := exec.Command("git", append([]string{"-C", repo}, args...)...).CombinedOutput(); err != nil {
				f.Fatalf("git %v: %s", args, out)
			}
		}
		data, err := os.ReadFile(filepath.Join(repo, ".git", "index"))
		if err != nil {
			f.Fatal(err)
		}
		if names, _ := parseIndex(data, sha1Size); !slices.Equal(names, []string{"a/b.c", "a/b.d", "z"}) {
			f.Fatalf("version %s holds %q", version, names)
		}
		f.Add(data)
		f.Add(data[:len(data)/2])
	}
	f.Add([]byte("DIRC\x00\x00\x00\x04\xff\xff\xff\xff" + strings.Repeat("\x00", 100)))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, hash := range []int{sha1Size, sha256Size} {
			names, shared := parseIndex(data, hash)
			if len(names) > len(data) || strings.ContainsAny(shared, "/.") {
				t.Fatalf("%d names and %q from %d bytes", len(names), shared, len(data))
			}
			slices.Sort(names)
			x := &index{names}
			for _, name := range names[:min(10, len(names))] {
				if !x.holds(name, false) {
					t.Fatalf("%q is not found", name)
				}
			}
			x.holds("a", true)
		}
	})
}

// Whatever stands in a configuration, reading it ends.
func FuzzConfig(f *testing.F) {
	for _, seed := range []string{
		"[core]\nexcludesFile = ~/x\n", "[core] excludesfile=\"a\\\nb\" # c", "[include]\npath = self\n", "[includeIf \"gitdir:a\\\"]b\"]path=self", "[\"", "[a \"", "\\", "[core]\n\tx\n", "[include]\n" + strings.Repeat("path = self\n", 50),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, content string) {
		dir := t.TempDir()
		self := filepath.Join(dir, "self")
		if err := os.WriteFile(self, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		r := newConfigReader(dir, dir)
		r.mayRead = func(real string) bool { return strings.HasPrefix(real, dir) }
		r.read(self, 0)
	})
}
