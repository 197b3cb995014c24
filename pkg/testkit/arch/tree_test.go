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

// A service's README names each proto service of its package, or each RPC of it.
func TestReadmesNameTheRPCs(t *testing.T) {
	t.Parallel()
	rpc := regexp.MustCompile(`(?m)^ *(service|rpc) (\w+)`)
	for _, service := range folders(t, "services") {
		files, err := filepath.Glob(filepath.Join(root(t), "proto/kaged", strings.ReplaceAll(service, "-", ""), "v1/*.proto"))
		if err != nil {
			t.Fatal(err)
		}
		readme := filepath.Join("services", service, "README.md")
		page, covered := read(t, readme), true
		for _, file := range files {
			proto, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range rpc.FindAllStringSubmatch(string(proto), -1) {
				named := regexp.MustCompile(`\b` + m[2] + `\b`).MatchString(page)
				if m[1] == "service" {
					covered = named && strings.Contains(page, "`"+m[2]+"`")
				} else if !covered && !named {
					t.Errorf("%s does not name %s", readme, m[2])
				}
			}
		}
	}
}
