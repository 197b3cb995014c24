package walk_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/workspace/ignore"
	"kaged.dev/pkg/workspace/paths"
	"kaged.dev/pkg/workspace/walk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open returns the space of a folder and the folder itself.
func open(t testing.TB, root string, rules paths.Rules) (*paths.Space, paths.Path) {
	t.Helper()
	space, err := paths.Open(root, rules)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(space.Close)
	start, err := space.Resolve("path", ".")
	if err != nil {
		t.Fatal(err)
	}
	return space, start
}

func options(space *paths.Space, start paths.Path, lookup func(string) (string, bool)) walk.Options {
	return walk.Options{Workers: 2, Rules: ignore.Start(space.Root(), start.Abs(), ignore.LoadUser(lookup)), Space: space}
}

func nobody(string) (string, bool) { return "", false }

// files walks from a folder and returns the visited files, sorted.
func files(t testing.TB, space *paths.Space, start paths.Path) []string {
	t.Helper()
	var mu sync.Mutex
	var seen []string
	err := walk.Files(
		t.Context(),
		start,
		options(space, start, nobody),
		func(_ context.Context, f *walk.Folder, names []string) {
			mu.Lock()
			defer mu.Unlock()
			for _, name := range names {
				seen = append(seen, f.Path.Join(name).Show)
				if _, err := f.Stat(name); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(seen)
	return seen
}

func write(t testing.TB, root, name string) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
}

// Every file is visited once, however many a folder holds.
func TestEveryFileOnce(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	var want []string
	for i := range 500 {
		name := fmt.Sprintf("d%d/e%d/f%d", i%2, i%7, i)
		write(t, root, name)
		want = append(want, "./"+name)
	}
	slices.Sort(want)
	space, start := open(t, root, paths.Rules{})
	if d := cmp.Diff(want, files(t, space, start)); d != "" {
		t.Error(d)
	}
}

// Denied and ignored files, links and .git are left out; a repository inside has its own rules.
func TestWhatIsLeftOut(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, name := range []string{
		"a", "secret/x", "sub/key.pem", "sub/b", "out/c", "nested/out/d", "nested/.git/HEAD", "fake/.git/x", "fake/out/e",
	} {
		write(t, root, name)
	}
	if err := os.WriteFile(filepath.Join(root, ".gitignore"), []byte("out/\n.gitignore\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("a", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	space, start := open(t, root, paths.Rules{Denied: []string{"secret", "**/*.pem"}})
	if d := cmp.Diff([]string{"./a", "./nested/out/d", "./sub/b"}, files(t, space, start)); d != "" {
		t.Error(d)
	}
}

// A walk ends with its context, and says when it could not even begin.
func TestWalkEnds(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for i := range 300 {
		write(t, root, fmt.Sprintf("d%d/f", i))
	}
	space, start := open(t, root, paths.Rules{})
	ctx, cancel := context.WithCancel(t.Context())
	err := walk.Files(
		ctx,
		start,
		options(space, start, nobody),
		func(context.Context, *walk.Folder, []string) { cancel() },
	)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	gone := start.Join("gone")
	if err := walk.Files(t.Context(), gone, options(space, start, nobody), nil); !errors.Is(err, fault.FileNotFound) {
		t.Errorf("error %v", err)
	}
}
