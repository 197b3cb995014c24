package configref

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kaged.dev/pkg/config"
	"kaged.dev/services/kaged"
)

// Every key of local.toml is read by the code that it configures, or is on the list of keys that have no effect and
// cause a warning. A key counts as read if its field is selected by name outside its validation: in the service for a
// service's table, anywhere for a shared one.
func TestEveryKeyIsReadOrSaidToHaveNoEffect(t *testing.T) {
	t.Parallel()
	const root = "../../../.."
	selectors := map[string]map[string]bool{} // by folder: the names selected in it
	for _, tab := range tables(kaged.Modules()) {
		where := filepath.Dir(tab.file)
		if strings.HasPrefix(where, "pkg/") {
			where = "."
		}
		if selectors[where] == nil {
			selectors[where] = selected(t, filepath.Join(root, where))
		}
		groups, err := groupsOf(root, tab.file, tab.strct)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range groups {
			for _, f := range g.fields {
				read := selectors[where][f.name]
				dormant := slices.ContainsFunc(config.Dormant, func(d config.DormantKey) bool {
					return "["+d.Table+"]" == tab.name && d.Name == f.key
				})
				if read == dormant {
					t.Errorf("%s %s: read %t, on the list of keys without effect %t; want exactly one", tab.name, f.key, read, dormant)
				}
			}
		}
	}
}

// validated are the files of package config with the shared tables. A field selected there is only validated.
var validated = []string{"file.go", "force.go", "models.go", "limits.go", "budget.go"}

// selected returns the names that are selected from values in the Go files below dir, without tests, generated code,
// validating functions and the shared configuration itself.
func selected(t *testing.T, dir string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "gen" || d.Name() == "testdata" || d.Name() == "examples" ||
			strings.HasPrefix(d.Name(), ".git") || d.Name() == "tools"):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go"), strings.HasSuffix(path, "_test.go"),
			strings.HasSuffix(filepath.Dir(path), "pkg/config") && slices.Contains(validated, filepath.Base(path)):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if f, ok := n.(*ast.FuncDecl); ok && f.Name.Name == "Validate" {
				return false
			}
			if s, ok := n.(*ast.SelectorExpr); ok {
				names[s.Sel.Name] = true
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
