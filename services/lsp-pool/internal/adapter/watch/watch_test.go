package watch_test

import (
	"cmp"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"kaged.dev/services/lsp-pool/internal/adapter/watch"
	"kaged.dev/services/lsp-pool/internal/lsp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func tree(t *testing.T) (string, *watch.Tree) {
	t.Helper()
	root := t.TempDir()
	w := watch.New(root, slog.New(slog.NewTextHandler(io.Discard, nil)))
	t.Cleanup(w.Close)
	return root, w
}

// The reported changes turn the set of known files into the set of existing files.
func TestChangesAreComplete(t *testing.T) {
	t.Parallel()
	root, w := tree(t)
	known := map[string]bool{}
	random := rand.New(rand.NewPCG(1, 2))
	folder := func() string { return filepath.Join(root, strconv.Itoa(random.IntN(4)), strconv.Itoa(random.IntN(3))) }
	file := func() string { return filepath.Join(folder(), strconv.Itoa(random.IntN(5))) }
	for range 300 {
		for range random.IntN(6) {
			switch random.IntN(6) {
			case 0, 1, 2:
				path := file()
				_ = os.MkdirAll(filepath.Dir(path), 0o755)
				_ = os.WriteFile(path, []byte(strconv.Itoa(random.Int())), 0o644)
			case 3:
				_ = os.Remove(file())
			case 4:
				_ = os.RemoveAll(folder())
			case 5:
				_ = os.Rename(folder(), folder())
			}
		}
		for _, c := range w.Changes(t.Context()) {
			if c.Kind == lsp.Deleted {
				delete(known, c.Path)
			} else {
				known[c.Path] = true
			}
		}
		there := map[string]bool{}
		_ = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				there[path] = true
			}
			return nil
		})
		if a, b := sorted(known), sorted(there); !slices.Equal(a, b) {
			t.Fatalf("told %v, there is %v", a, b)
		}
	}
}

func sorted(set map[string]bool) (list []string) {
	for path := range set {
		list = append(list, path)
	}
	slices.Sort(list)
	return list
}

// Each change of a file is reported once, with its kind. Folders of installed packages and of version control are left
// out.
func TestKinds(t *testing.T) {
	t.Parallel()
	root, w := tree(t)
	path := filepath.Join(root, "a")
	step := func(name string, do func() error, want ...lsp.Change) {
		t.Helper()
		if err := do(); err != nil {
			t.Fatal(err)
		}
		got := w.Changes(t.Context())
		slices.SortFunc(got, func(a, b lsp.Change) int { return cmp.Compare(a.Path, b.Path) })
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	write := func(name, text string) func() error {
		return func() error { return os.WriteFile(name, []byte(text), 0o644) }
	}
	step("nothing", func() error { return nil })
	step("create", write(path, "1"), lsp.Change{Path: path, Kind: lsp.Created})
	step("change", write(path, "22"), lsp.Change{Path: path, Kind: lsp.Changed})
	step("touch nothing", func() error { return os.Chmod(path, 0o600) })
	step("move", func() error { return os.Rename(path, path+"b") }, lsp.Change{Path: path, Kind: lsp.Deleted},
		lsp.Change{Path: path + "b", Kind: lsp.Created})
	step("remove", func() error { return os.Remove(path + "b") }, lsp.Change{Path: path + "b", Kind: lsp.Deleted})
	inner := filepath.Join(root, "d", "b")
	step("folder", func() error { return errors.Join(os.Mkdir(filepath.Join(root, "d"), 0o755), write(inner, "1")()) },
		lsp.Change{Path: inner, Kind: lsp.Created})
	step("folder in the place of another", func() error {
		return errors.Join(os.RemoveAll(filepath.Dir(inner)), os.Mkdir(filepath.Dir(inner), 0o755))
	}, lsp.Change{Path: inner, Kind: lsp.Deleted})
	step("file of the new folder", write(inner, "2"), lsp.Change{Path: inner, Kind: lsp.Created})
	step("left out", func() error {
		if err := os.MkdirAll(filepath.Join(root, "node_modules", "x"), 0o755); err != nil {
			return err
		}
		return write(filepath.Join(root, "node_modules", "x", "y"), "1")()
	})
}
