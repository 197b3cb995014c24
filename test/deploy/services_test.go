package deploy

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The command runs every service of the tree, and the reference of the configuration has a table for each.
func TestEveryServiceIsListed(t *testing.T) {
	t.Parallel()
	modules, err := filepath.Glob(filepath.Join(root, "services", "*", "module.go"))
	if err != nil {
		t.Fatal(err)
	}
	var tree []string
	for _, module := range modules {
		tree = append(tree, filepath.Base(filepath.Dir(module)))
	}
	listed := slices.Sorted(slices.Values(services))
	if !slices.Equal(listed, tree) {
		t.Errorf("the contract's enum Service lists %v, want %v: the folders of services with a module.go", listed, tree)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "reference", "config.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range tree {
		if !strings.Contains(string(page), "[services."+name+"]") {
			t.Errorf("docs/reference/config.md has no table [services.%s]: add it to services/kaged/internal/configref", name)
		}
	}
}
