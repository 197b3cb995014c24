package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The page of the architecture draws the tree as it is: it names every service and every package of pkg.
func TestArchitectureNamesTheTree(t *testing.T) {
	t.Parallel()
	page := read(t, "docs/ARCHITECTURE.md")
	for _, want := range []struct{ folder, written string }{{"pkg", "`pkg/"}, {"services", "services/"}} {
		for _, name := range folders(t, want.folder) {
			if word := regexp.MustCompile(regexp.QuoteMeta(want.written+name) + `\b`); !word.MatchString(page) {
				t.Errorf("docs/ARCHITECTURE.md does not name %s/%s", want.folder, name)
			}
		}
	}
}

// A package is called as its folder, so that an import needs no other name. Hyphens of services are left out.
func TestPackagesAreCalledAsTheirFolders(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		folder := strings.ReplaceAll(filepath.Base(p.Dir), "-", "")
		if p.Name != folder && p.Name != "main" && p.Name != "" && !strings.Contains(p.ImportPath, "/proto/gen/") {
			t.Errorf("package %s is in the folder %s", p.Name, p.ImportPath)
		}
	}
}

// The list of decisions has each decision once.
func TestDecisionsAreListed(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(root(t), "docs", "adr", "0*.md"))
	if err != nil || len(files) == 0 {
		t.Fatalf("decisions: %v, %v", files, err)
	}
	list := read(t, "docs/adr/README.md")
	for _, file := range files {
		if name := filepath.Base(file); strings.Count(list, "("+name+")") != 1 {
			t.Errorf("docs/adr/README.md lists %s %d times, want once", name, strings.Count(list, "("+name+")"))
		}
	}
}

// read returns a file of the tree.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// folders returns the names of the folders in dir.
func folders(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(root(t), dir))
	if err != nil {
		t.Fatal(err)
	}
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool { return !e.IsDir() })
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
