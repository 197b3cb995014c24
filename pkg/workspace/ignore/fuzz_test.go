package ignore

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A small index cannot hold names that take more memory than there is: each of these is one byte longer than the one
// before.
func TestIndexNamesAreBounded(t *testing.T) {
	t.Parallel()
	const count = 200_000
	data := binary.BigEndian.AppendUint32([]byte("DIRC\x00\x00\x00\x04"), count)
	for range count {
		data = append(data, entryOf(unix.S_IFREG)...)
		data = append(data, 0, 'a', 0) // keep the whole name, add an a
	}
	names, _ := namesIn(append(data, make([]byte, sha1Size)...), sha1Size)
	if len(names) != maxName || len(names[maxName-1]) != maxName {
		t.Errorf("%d names", len(names))
	}
	if names, _ := namesIn(append([]byte("DIRC\x00\x00\x00\x02\xff\xff\xff\xff"), make([]byte, 1<<20)...), sha1Size); len(
		names,
	) > 0 {
		t.Errorf("%d names in nothing", len(names))
	}
}

// entryOf returns the part of an entry of version 4 before its name.
func entryOf(mode uint32) []byte {
	entry := make([]byte, entryStat+sha1Size+2)
	binary.BigEndian.PutUint32(entry[entryMode:], mode)
	return entry
}

// namesIn is parseIndex for data in memory, with unlimited room.
func namesIn(data []byte, hash int) ([]string, string) {
	var all room
	all.left.Store(maxNames)
	return parseIndex(bytes.NewReader(data), int64(len(data)), hash, &all)
}

// counted counts the bytes read of a file.
type counted struct {
	io.ReaderAt
	bytes int
}

func (c *counted) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(p, off)
	c.bytes += n
	return n, err
}

// A sparse file is not read, for any number of entries it claims: it takes no disk, so that there
// may be any number of them.
func TestSparseIndexesAreNotRead(t *testing.T) {
	t.Parallel()
	for _, count := range []uint32{0, 1, 3_000_000, 1 << 31} {
		file, err := os.Create(filepath.Join(t.TempDir(), "index"))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if _, err := file.Write(binary.BigEndian.AppendUint32([]byte("DIRC\x00\x00\x00\x02"), count)); err != nil {
			t.Fatal(err)
		}
		if err := file.Truncate(maxIndex); err != nil {
			t.Fatal(err)
		}
		var all room
		all.left.Store(maxNames)
		read := &counted{ReaderAt: file}
		if names, shared := parseIndex(read, maxIndex, sha1Size, &all); len(names) > 0 || shared != "" ||
			read.bytes > 2*indexPiece {
			t.Errorf("%d entries: %q, %q, %d bytes were read", count, names, shared, read.bytes)
		}
	}
}

// The entries of a large index are read once, and its extensions are skipped.
func TestExtensionsArePassedOver(t *testing.T) {
	t.Parallel()
	const count, extension = 200_000, 64 << 20
	data := binary.BigEndian.AppendUint32([]byte("DIRC\x00\x00\x00\x04"), count)
	for i := range count {
		data = append(append(data, entryOf(unix.S_IFREG)...), byte(min(i, 1)), 'a'+byte(i%26), 0)
	}
	data = binary.BigEndian.AppendUint32(append(data, "UNTR"...), extension)
	file, err := os.Create(filepath.Join(t.TempDir(), "index"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	link := append([]byte("link\x00\x00\x00\x14"), bytes.Repeat([]byte{0xab}, sha1Size)...)
	if _, err := file.Write(data); err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt(append(link, make([]byte, sha1Size)...), int64(len(data)+extension)); err != nil {
		t.Fatal(err)
	}
	var all room
	all.left.Store(maxNames)
	read := &counted{ReaderAt: file}
	names, shared := parseIndex(read, int64(len(data)+extension+len(link)+sha1Size), sha1Size, &all)
	if len(names) != count || shared != strings.Repeat("ab", sha1Size) || read.bytes > len(data)+2*indexPiece {
		t.Errorf("%d names, shared %q, %d bytes were read", len(names), shared, read.bytes)
	}
}

// All indexes of a walk share the room for names; the first read gets it.
func TestIndexesShareTheirRoom(t *testing.T) {
	t.Parallel()
	w, dir := &User{}, t.TempDir()
	data := binary.BigEndian.AppendUint32([]byte("DIRC\x00\x00\x00\x04"), 2)
	for _, name := range []string{"\x00a\x00", "\x01b\x00"} {
		data = append(append(data, entryOf(unix.S_IFREG)...), name...)
	}
	if err := os.WriteFile(filepath.Join(dir, "index"), append(data, make([]byte, sha1Size)...), 0o644); err != nil {
		t.Fatal(err)
	}
	w.names.left.Store(3 * (1 + nameSize))
	first, second, third := readIndex(
		dir,
		sha1Size,
		&w.names,
	), readIndex(
		dir,
		sha1Size,
		&w.names,
	), readIndex(
		dir,
		sha1Size,
		&w.names,
	)
	if !first.holds("a", false) || !first.holds("b", false) || !second.holds("a", false) || second.holds("b", false) ||
		third != nil {
		t.Errorf("%v, %v, %v", first, second, third)
	}
}

// Reading an index of any content ends, and its result can be queried.
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
		for _, args := range [][]string{
			{"init", "-q"}, {"add", "a"}, {"update-index", "--index-version", version}, {"add", "-N", "z"},
		} {
			if out, err := exec.Command("git", append([]string{"-C", repo}, args...)...).CombinedOutput(); err != nil {
				f.Fatalf("git %v: %s", args, out)
			}
		}
		data, err := os.ReadFile(filepath.Join(repo, ".git", "index"))
		if err != nil {
			f.Fatal(err)
		}
		if names, _ := namesIn(data, sha1Size); !slices.Equal(names, []string{"a/b.c", "a/b.d", "z"}) {
			f.Fatalf("version %s holds %q", version, names)
		}
		f.Add(data)
		f.Add(data[:len(data)/2])
	}
	f.Add([]byte("DIRC\x00\x00\x00\x04\xff\xff\xff\xff" + strings.Repeat("\x00", 100)))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, hash := range []int{sha1Size, sha256Size} {
			names, shared := namesIn(data, hash)
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

// Reading a configuration of any content ends.
func FuzzConfig(f *testing.F) {
	for _, seed := range []string{
		"[core]\nexcludesFile = ~/x\n", "[core] excludesfile=\"a\\\nb\" # c", "[include]\npath = self\n",
		"[includeIf \"gitdir:a\\\"]b\"]path=self", "[\"", "[a \"", "\\", "[core]\n\tx\n",
		"[include]\n" + strings.Repeat("path = self\n", 50),
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
