package githead_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"kaged.dev/services/tool-runner/internal/core/changes/githead"
)

// A repository of which any bytes are changed is read without a panic.
func TestDamagedRepositories(t *testing.T) {
	t.Parallel()
	for _, packed := range []bool{false, true} {
		r := newRepository(t, 2)
		if packed {
			r.git("repack", "-adfq", "--depth=50")
		}
		var files []string
		err := filepath.WalkDir(filepath.Join(r.root, ".git"), func(path string, d os.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() &&
				(strings.Contains(path, "/objects/") || filepath.Base(path) == "HEAD") {
				files = append(files, path)
				err = os.Chmod(path, 0o600)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(files)
		rapid.Check(t, func(rt *rapid.T) { damage(rt, r, rapid.SampledFrom(files).Draw(rt, "file")) })
	}
}

// damage reads a repository with one damaged file.
func damage(rt *rapid.T, r repository, path string) {
	before, err := os.ReadFile(path)
	if err != nil {
		rt.Fatal(err)
	}
	data := bytes.Clone(before)
	for range rapid.IntRange(1, 4).Draw(rt, "changes") {
		data[rapid.IntRange(0, len(data)-1).Draw(rt, "at")] = rapid.Byte().Draw(rt, "byte")
	}
	if rapid.Bool().Draw(rt, "cut") {
		data = data[:rapid.IntRange(0, len(data)).Draw(rt, "length")]
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		rt.Fatal(err)
	}
	if head, err := r.open(); err == nil {
		files := map[string]githead.Entry{}
		if walk(rt.Context(), head, head.Root(), "", files) == nil {
			for _, e := range files {
				_, _ = head.Blob(rt.Context(), e, 1<<20) // a damaged one fails
			}
		}
		head.Close()
	}
	if err := os.WriteFile(path, before, 0o600); err != nil {
		rt.Fatal(err)
	}
}

// readable reads all files of HEAD.
func (r repository) readable() error {
	head, err := r.open()
	if err != nil {
		return err
	}
	defer head.Close()
	files := map[string]githead.Entry{}
	if err := walk(r.t.Context(), head, head.Root(), "", files); err != nil {
		return err
	}
	for _, e := range files {
		if _, err := head.Blob(r.t.Context(), e, 1<<20); err != nil {
			return err
		}
	}
	return nil
}

// A copy of an object that cannot be read does not hide another one, and is an error if there is no other.
func TestBrokenCopies(t *testing.T) {
	t.Parallel()
	r := newRepository(t, 2)
	r.git("repack", "-adfq", "--depth=50")
	objects := r.git("rev-list", "--objects", "--no-object-names", "HEAD")
	r.feed(objects, "pack-objects", "-q", "--no-reuse-object", "--compression=0", ".git/objects/pack/pack")
	packs, err := filepath.Glob(filepath.Join(r.root, ".git/objects/pack/*.pack"))
	if err != nil || len(packs) != 2 {
		t.Fatal(packs, err)
	}
	spoil := func(path string) (restore func()) {
		data, err := os.ReadFile(path)
		err = errors.Join(err, os.Remove(path), os.WriteFile(path, make([]byte, len(data)), 0o600))
		if err != nil {
			t.Fatal(err)
		}
		return func() {
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, pack := range packs {
		restore := spoil(pack)
		if err := r.readable(); err != nil {
			t.Errorf("with another pack: %v", err)
		}
		restore()
	}
	spoil(packs[0])
	spoil(packs[1])
	if r.readable() == nil {
		t.Error("a repository with broken copies alone is read")
	}
	lender, borrower := newRepository(t, 1), repository{t, t.TempDir()}
	borrower.git("clone", "-q", "--shared", lender.root, ".")
	hash := strings.TrimSpace(lender.git("rev-parse", "HEAD"))
	borrower.write(filepath.Join(".git/objects", hash[:2], hash[2:]), "garbage")
	if err := borrower.readable(); err != nil {
		t.Errorf("with a borrowed file: %v", err)
	}
}
