package githead_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kaged.dev/pkg/workspace/ignore"
	"kaged.dev/services/tool-runner/internal/core/changes/githead"
)

// repository is a work tree with a repository.
type repository struct {
	t    testing.TB
	root string
}

func (r repository) git(args ...string) string {
	r.t.Helper()
	return r.feed("", args...)
}

// feed runs git with an input.
func (r repository) feed(input string, args ...string) string {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), "git", append([]string{
		"-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "gc.auto=0",
	}, args...)...)
	cmd.Dir = r.root
	cmd.Stdin = strings.NewReader(input)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		r.t.Fatalf("git %v: %v %s", args, err, &stderr)
	}
	return string(out)
}

func (r repository) write(name, text string) {
	r.t.Helper()
	at := filepath.Join(r.root, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o700), os.WriteFile(at, []byte(text), 0o600)); err != nil {
		r.t.Fatal(err)
	}
}

// newRepository returns a repository with versions of files that are alike, so that git packs them as differences.
func newRepository(t testing.TB, commits int) repository {
	t.Helper()
	r := repository{t, t.TempDir()}
	r.git("init", "-q", "-b", "main")
	random := rand.New(rand.NewPCG(1, 2))
	lines := make([]string, 400)
	for i := range lines {
		lines[i] = fmt.Sprintf("line %d %x\n", i, random.Uint64())
	}
	for n := range commits {
		lines[random.IntN(len(lines))] = fmt.Sprintf("commit %d\n", n)
		text := strings.Join(lines, "")
		r.write("long", text)
		r.write("sub/deep/long", strings.ToUpper(text[:len(text)/2]))
		for i := range 30 {
			r.write(fmt.Sprintf("many/%03d/file", i), fmt.Sprintf("%d in %d\n", i, n*(i%3)))
		}
		r.git("add", "-A")
		r.git("commit", "-qm", fmt.Sprint(n))
	}
	if err := os.Symlink("long", filepath.Join(r.root, "link")); err != nil {
		t.Fatal(err)
	}
	r.write("empty", "")
	r.git("add", "-A")
	r.git("commit", "-qm", "last")
	return r
}

func (r repository) open() (*githead.Repository, error) {
	_, own, common := ignore.Repository(r.root)
	return githead.Open(r.t.Context(), own, common)
}

// check compares all files of HEAD with those that git shows.
func (r repository) check() {
	r.t.Helper()
	head, err := r.open()
	if err != nil {
		r.t.Fatal(err)
	}
	defer head.Close()
	if want := strings.TrimSpace(r.git("rev-parse", "HEAD")); head.Commit() != want {
		r.t.Errorf("the commit is %s, want %s", head.Commit(), want)
	}
	files := map[string]githead.Entry{}
	if err := walk(r.t.Context(), head, head.Root(), "", files); err != nil {
		r.t.Fatal(err)
	}
	list := strings.Split(strings.Trim(r.git("ls-tree", "-rz", "HEAD"), "\x00"), "\x00")
	if len(list) != len(files) || len(list) < 30 {
		r.t.Errorf("%d files, want %d", len(files), len(list))
	}
	for _, line := range list {
		meta, name, _ := strings.Cut(line, "\t")
		hash := strings.Fields(meta)[2]
		if files[name].Hash.String() != hash {
			r.t.Errorf("%s is %s, want %s", name, files[name].Hash, hash)
		}
		found, ok, err := head.Find(r.t.Context(), head.Root(), name)
		if err != nil || !ok || found != files[name] {
			r.t.Errorf("%s is found as %v, %v, %v", name, found, ok, err)
		}
		data, err := head.Blob(r.t.Context(), found, 1<<20)
		if want := r.git("cat-file", "blob", hash); err != nil || string(data) != want {
			r.t.Errorf("%s has %d bytes, want %d: %v", name, len(data), len(want), err)
		}
	}
}

// walk adds the files of a folder.
func walk(
	ctx context.Context, r *githead.Repository, folder githead.Entry, prefix string, files map[string]githead.Entry,
) error {
	tree, err := r.Tree(ctx, folder)
	if err != nil {
		return err
	}
	for e := range tree.All() {
		if e.Kind == githead.Folder {
			if err := walk(ctx, r, e, prefix+e.Name+"/", files); err != nil {
				return err
			}
			continue
		}
		files[prefix+e.Name] = e
	}
	return nil
}

// Each form of git's objects and references is read as by git.
func TestFormsOfRepositories(t *testing.T) {
	t.Parallel()
	repack := func(args ...string) func(repository) repository {
		return func(r repository) repository {
			r.git(append(args, "-adfq", "--depth=50", "--window=60")...)
			if out := r.git("count-objects", "-v"); !strings.HasPrefix(out, "count: 0\n") {
				t.Errorf("objects are not packed: %s", out)
			}
			return r
		}
	}
	for name, change := range map[string]func(repository) repository{
		"loose":      func(r repository) repository { return r },
		"packed":     repack("repack"),
		"index 1":    repack("-c", "pack.indexVersion=1", "repack"),
		"references": repack("-c", "repack.useDeltaBaseOffset=false", "repack"),
		"long offsets": func(r repository) repository {
			repack("repack")(r)
			packs, err := filepath.Glob(filepath.Join(r.root, ".git/objects/pack/*.pack"))
			if err != nil || len(packs) != 1 {
				t.Fatal(packs, err)
			}
			idx := strings.TrimSuffix(packs[0], ".pack") + ".idx"
			if err := os.Remove(idx); err != nil {
				t.Fatal(err)
			}
			r.git("index-pack", "--index-version=2,0x40", "-o", idx, packs[0])
			return r
		},
		"many packs": func(r repository) repository {
			// One for each object; more than are kept open.
			objects := strings.Fields(r.git("rev-list", "--objects", "--no-object-names", "HEAD"))
			if len(objects) < 70 {
				t.Fatalf("only %d objects", len(objects))
			}
			for _, object := range objects {
				r.feed(object+"\n", "pack-objects", "-q", ".git/objects/pack/pack")
			}
			r.git("prune-packed")
			return r
		},
		"packed references": func(r repository) repository {
			r.git("tag", "-am", "tag", "tag")
			r.git("pack-refs", "--all")
			return r
		},
		"detached": func(r repository) repository {
			r.git("checkout", "-q", "--detach", "HEAD~1")
			return r
		},
		"alternates": func(r repository) repository {
			repack("repack")(r)
			borrower := repository{t, t.TempDir()}
			borrower.git("clone", "-q", "--shared", r.root, ".")
			return borrower
		},
		"worktree": func(r repository) repository {
			other := repository{t, filepath.Join(t.TempDir(), "other")}
			r.git("worktree", "add", "-q", other.root, "HEAD~2")
			return other
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			change(newRepository(t, 4)).check()
		})
	}
}

// A file above the given limit, or above that of all objects, is not read, in a pack or in a file of its own.
func TestLargeFiles(t *testing.T) {
	t.Parallel()
	r := newRepository(t, 2)
	r.write("huge", strings.Repeat("huge\n", 2<<20))
	r.git("add", "-A")
	r.git("commit", "-qm", "huge")
	for _, packed := range []bool{false, true} {
		if packed {
			r.git("repack", "-adfq")
		}
		head, err := r.open()
		if err != nil {
			t.Fatal(err)
		}
		for name, limit := range map[string]int64{"huge": 1 << 40, "long": 1 << 10, "sub/deep/long": 1 << 10} {
			e, ok, err := head.Find(t.Context(), head.Root(), name)
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			if data, err := head.Blob(t.Context(), e, limit); !errors.Is(err, githead.ErrLarge) {
				t.Errorf("%s: %d bytes, %v", name, len(data), err)
			}
		}
		head.Close()
	}
}

// A path that HEAD does not have is not found, and a repository without a commit is none.
func TestNothingThere(t *testing.T) {
	t.Parallel()
	r := newRepository(t, 1)
	head, err := r.open()
	if err != nil {
		t.Fatal(err)
	}
	defer head.Close()
	for _, name := range []string{"none", "long/none", "sub/none", "", "sub/", "link/x"} {
		if e, ok, err := head.Find(t.Context(), head.Root(), name); ok || err != nil {
			t.Errorf("%q is %v, %v", name, e, err)
		}
	}
	unborn := repository{t, t.TempDir()}
	unborn.git("init", "-q")
	if _, err := unborn.open(); !errors.Is(err, githead.ErrNone) {
		t.Error(err)
	}
}

// A repository of which the branch cannot be read is not one without a commit.
func TestUnknownReferences(t *testing.T) {
	t.Parallel()
	packed := repository{t, t.TempDir()}
	packed.git("init", "-q", "-b", "main", "--object-format=sha256")
	packed.write("file", "text\n")
	packed.git("add", "-A")
	packed.git("commit", "-qm", "first")
	packed.git("pack-refs", "--all")
	tables := repository{t, t.TempDir()}
	tables.git("init", "-q")
	tables.write(".git/HEAD", "ref: refs/heads/.invalid\n")
	for name, r := range map[string]repository{"SHA-256": packed, "reftable": tables} {
		if _, err := r.open(); err == nil || errors.Is(err, githead.ErrNone) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An object counts once in the bytes of those that are kept, however often it is read and is a base of others.
func TestKeptBytes(t *testing.T) {
	t.Parallel()
	r := newRepository(t, 20)
	r.git("repack", "-adfq", "--depth=50", "--window=60")
	head, err := r.open()
	if err != nil {
		t.Fatal(err)
	}
	defer head.Close()
	var chained []githead.Entry
	for line := range strings.Lines(r.git("log", "--format=", "--raw", "--no-abbrev", "--", "long")) {
		object, _, err := head.Find(t.Context(), head.Root(), "long")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := hex.Decode(object.Hash[:], []byte(strings.Fields(line)[3])); err != nil {
			t.Fatal(err)
		}
		chained = append(chained, object)
	}
	for _, e := range chained {
		if _, err := head.Blob(t.Context(), e, 1<<20); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := head.Kept(); got != want || len(chained) < 20 {
		t.Errorf("%d bytes of objects count as %d, after %d reads", want, got, len(chained))
	}
}

// A folder is gone through once, not again for each file that is looked up in it.
func TestManyFilesOfAFolder(t *testing.T) { //nolint:paralleltest // it counts what the process allocates
	r := repository{t, t.TempDir()}
	r.git("init", "-q")
	// Git orders the folder "a" behind "a.b".
	names := []string{"a.b", "a/a.b", "a/b/c", "a0", "z"}
	for i := range 2000 {
		names = append(names, fmt.Sprintf("a/%d", i))
	}
	for _, name := range names {
		r.write(name, name)
	}
	r.git("add", "-A")
	r.git("commit", "-qm", "first")
	head, err := r.open()
	if err != nil {
		t.Fatal(err)
	}
	defer head.Close()
	for _, name := range names {
		e, ok, err := head.Find(t.Context(), head.Root(), name)
		if err != nil || !ok || e.Kind != githead.File || e.Name != filepath.Base(name) {
			t.Errorf("%s is %v, %v, %v", name, e, ok, err)
		}
	}
	allocated := testing.AllocsPerRun(10, func() {
		if _, ok, err := head.Find(t.Context(), head.Root(), "a/999"); !ok || err != nil {
			t.Error(ok, err)
		}
	})
	if allocated > 20 {
		t.Errorf("to look up a file allocates %v times", allocated)
	}
	if counted, size := head.Kept(); counted != size {
		t.Errorf("%d bytes of objects count as %d", size, counted)
	}
}

// counted is a context that ends when it was asked a number of times.
type counted struct {
	context.Context
	left int
}

func (c *counted) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// Reading ends with its context, in the middle of an object too.
func TestReadingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	r := repository{t, t.TempDir()}
	r.git("init", "-q")
	noise := make([]byte, 4<<20)
	random := rand.New(rand.NewPCG(3, 4))
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	r.write("noise", string(noise))
	r.git("add", "-A")
	r.git("commit", "-qm", "noise")
	head, err := r.open()
	if err != nil {
		t.Fatal(err)
	}
	defer head.Close()
	e, _, err := head.Find(t.Context(), head.Root(), "noise")
	if err != nil {
		t.Fatal(err)
	}
	ctx := &counted{t.Context(), 10}
	if _, err := head.Blob(ctx, e, 8<<20); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	_, own, common := ignore.Repository(r.root)
	for left := range 2 {
		if _, err := githead.Open(&counted{t.Context(), left}, own, common); !errors.Is(err, context.Canceled) {
			t.Errorf("after %d questions: %v", left, err)
		}
	}
}
