package changes_test

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A pipe in the place of any file of a repository, which an agent can make while its cage may write there, is not
// waited for.
func TestPipesInARepository(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, head string }{
		{"HEAD", ""},
		{"refs/heads/main", "ref: refs/heads/main\n"},
		{"packed-refs", "ref: refs/heads/gone\n"},
		{"objects/aa/" + strings.Repeat("a", 38), strings.Repeat("a", 40) + "\n"},
		{"objects/info/alternates", strings.Repeat("b", 40) + "\n"},
		{"objects/pack/pack-" + strings.Repeat("c", 40) + ".idx", strings.Repeat("b", 40) + "\n"},
		{"objects/pack/pack-" + strings.Repeat("c", 40) + ".pack", strings.Repeat("b", 40) + "\n"},
		{"index", strings.Repeat("b", 40) + "\n"},
		{"config", strings.Repeat("b", 40) + "\n"},
	} {
		t.Run(filepath.Base(c.name), func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.git("init", "-q")
			git := filepath.Join(p.root, ".git")
			pipe := filepath.Join(git, c.name)
			err := errors.Join(os.WriteFile(filepath.Join(git, "HEAD"), []byte(c.head), 0o600),
				os.MkdirAll(filepath.Dir(pipe), 0o700), os.RemoveAll(pipe), unix.Mkfifo(pipe, 0o600))
			if err != nil {
				t.Fatal(err)
			}
			p.write("new", "x\n")
			if _, found := p.list(); found.Head != "" {
				t.Errorf("the head is %q", found.Head)
			}
		})
	}
}

// most is the memory that the tests allow one listing, all that was freed again included.
const most = 128 << 20

// List allocates a bounded amount of memory for any repository. It does not fail if the repository cannot be read: it
// returns the changes by tools and sets Truncated.
func TestHostileRepositories(t *testing.T) { //nolint:paralleltest // it measures what the process allocates
	for name, spoil := range map[string]func(*spoiled){
		"a commit longer than it says": func(s *spoiled) {
			s.loose(s.head(), "commit 10\x00", 256<<20)
		},
		"a commit that says it is huge": func(s *spoiled) {
			s.loose(s.head(), "commit 1099511627776\x00", 1<<20)
		},
		"a tree of zeros": func(s *spoiled) {
			s.loose(s.tree(), "tree 268435456\x00", 256<<20)
		},
		"an endless head of an object": func(s *spoiled) {
			s.loose(s.head(), "commit ", 256<<20)
		},
		"a huge HEAD":             func(s *spoiled) { s.sparse("HEAD") },
		"a huge branch":           func(s *spoiled) { s.sparse("refs/heads/main") },
		"huge packed references":  func(s *spoiled) { s.remove("refs/heads/main"); s.sparse("packed-refs") },
		"a huge list of folders":  func(s *spoiled) { s.sparse("objects/info/alternates") },
		"a huge index":            func(s *spoiled) { s.remove("objects/" + s.head()[:2]); s.index() },
		"a pack with a huge file": func(s *spoiled) { s.pack([]byte{0x9f, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}) },
		"a difference from itself": func(s *spoiled) {
			s.pack(slices.Concat([]byte{0x72}, s.raw(s.head()), zipped("\x0a\x0a", 0)))
		},
		"a difference that makes a huge object": func(s *spoiled) {
			sizes := zipped("\x80\x80\x80\x80\x10\x80\x80\x80\x80\x10", 0)
			s.pack(slices.Concat([]byte{0x7a}, s.raw(s.head()), sizes))
		},
		"trees that name each other": func(s *spoiled) { s.trees() },
		"attributes in many folders": func(s *spoiled) {
			s.put("info/exclude", []byte(".gitattributes\n"))
			for i := range 100 {
				s.write(fmt.Sprintf("%d/.gitattributes", i), strings.Repeat("a\n", 1<<19))
				s.write(fmt.Sprintf("%d/new", i), "new\n")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.git("init", "-qb", "main")
			p.write("old", "old\n")
			p.git("add", "-A")
			p.git("commit", "-qm", "first")
			p.tool("primary", "tool", "by a tool\n")
			p.write("new", "new\n")
			spoil(&spoiled{p})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got, found := p.list()
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; used > most {
				t.Errorf("the listing took %d MiB", used>>20)
			}
			if !strings.Contains(got, "tool created tool [primary] +1 -0") || !found.Truncated {
				t.Errorf("truncated %v, got\n%.1000s", found.Truncated, got)
			}
		})
	}
}

// spoiled is a place with a repository that an agent changes.
type spoiled struct{ *place }

func (s *spoiled) show(args ...string) string {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), "git", args...)
	cmd.Dir = s.root
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatal(args, err)
	}
	return strings.TrimSpace(string(out))
}

func (s *spoiled) head() string { return s.show("rev-parse", "HEAD") }

func (s *spoiled) tree() string { return s.show("rev-parse", "HEAD^{tree}") }

func (s *spoiled) raw(hash string) []byte {
	s.t.Helper()
	raw, err := hex.DecodeString(hash)
	if err != nil {
		s.t.Fatal(err)
	}
	return raw
}

// put replaces a file of the repository.
func (s *spoiled) put(name string, data []byte) {
	s.t.Helper()
	at := filepath.Join(s.root, ".git", name)
	err := errors.Join(os.RemoveAll(at), os.MkdirAll(filepath.Dir(at), 0o700), os.WriteFile(at, data, 0o600))
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *spoiled) remove(name string) {
	s.t.Helper()
	if err := os.RemoveAll(filepath.Join(s.root, ".git", name)); err != nil {
		s.t.Fatal(err)
	}
}

// sparse puts a file of a terabyte of zeros, which takes no room.
func (s *spoiled) sparse(name string) {
	s.t.Helper()
	s.put(name, nil)
	if err := os.Truncate(filepath.Join(s.root, ".git", name), 1<<40); err != nil {
		s.t.Fatal(err)
	}
}

// loose replaces an object by a beginning and zeros.
func (s *spoiled) loose(hash, head string, zeros int) {
	s.t.Helper()
	s.put(filepath.Join("objects", hash[:2], hash[2:]), zipped(head, zeros))
}

// zipped returns a zlib stream, of which the end is missing if there are zeros.
func zipped(head string, zeros int) []byte {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	_, _ = z.Write([]byte(head)) // a buffer takes all
	if zeros == 0 {
		_ = z.Close()
		return b.Bytes()
	}
	chunk := make([]byte, 1<<20)
	var first int
	for range 2 {
		_ = z.Flush()
		first = b.Len()
		_, _ = z.Write(chunk)
	}
	_ = z.Flush()
	// A chunk after a chunk of zeros can be repeated.
	again := bytes.Clone(b.Bytes()[first:])
	for range zeros/len(chunk) - 2 {
		b.Write(again)
	}
	return b.Bytes()
}

// index puts an index of a pack that says it has four thousand million objects.
func (s *spoiled) index() {
	s.t.Helper()
	name := "objects/pack/pack-" + strings.Repeat("a", 40) + ".idx"
	s.put(name, append([]byte("\xfftOc\x00\x00\x00\x02"), bytes.Repeat([]byte{0xff}, 4*256)...))
	if err := os.Truncate(filepath.Join(s.root, ".git", name), 1<<40); err != nil {
		s.t.Fatal(err)
	}
}

// pack puts the commit at HEAD into a pack with one entry.
func (s *spoiled) pack(entry []byte) {
	s.t.Helper()
	head := s.raw(s.head())
	s.remove("objects/" + hex.EncodeToString(head[:1]))
	idx := []byte("\xfftOc\x00\x00\x00\x02")
	for i := range 256 {
		idx = append(idx, 0, 0, 0, byte(1-min(1, max(0, int(head[0])-i))))
	}
	idx = append(append(idx, head...), 0, 0, 0, 0, 0, 0, 0, 12) // the hash, a checksum, the offset
	idx = append(idx, make([]byte, 40)...)
	base := "objects/pack/pack-" + strings.Repeat("a", 40)
	s.put(base+".idx", idx)
	s.put(base+".pack", slices.Concat([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01"), entry, make([]byte, 40)))
}

// trees makes a tree with ten thousand million files of sixteen trees.
func (s *spoiled) trees() {
	s.t.Helper()
	blob := s.show("rev-parse", "HEAD:old")
	kind, below := "100644", blob
	for range 10 {
		var tree bytes.Buffer
		for i := range 10 {
			fmt.Fprintf(&tree, "%s %d%s\x00%s", kind, i, strings.Repeat("n", 200), s.raw(below))
		}
		below, kind = s.object("tree", tree.Bytes()), "40000"
	}
	commit := fmt.Sprintf("tree %s\nauthor t <t> 0 +0000\ncommitter t <t> 0 +0000\n\nx\n", below)
	s.put("refs/heads/main", []byte(s.object("commit", []byte(commit))+"\n"))
}

// object writes an object and returns its hash.
func (s *spoiled) object(kind string, data []byte) string {
	s.t.Helper()
	whole := fmt.Sprintf("%s %d\x00%s", kind, len(data), data)
	hash := fmt.Sprintf("%x", sha1.Sum([]byte(whole)))
	s.loose(hash, whole, 0)
	return hash
}
