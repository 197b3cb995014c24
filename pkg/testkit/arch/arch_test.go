// Package arch holds the tests that keep the tree what docs/ARCHITECTURE.md says it is.
package arch

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

type goPackage struct {
	ImportPath, Dir, Doc string
	Imports              []string
	TestImports          []string
	GoFiles              []string
}

func packages(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-json=ImportPath,Dir,Doc,Imports,TestImports,GoFiles", "kaged.dev/...")
	cmd.Dir = root(t)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var list []goPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p goPackage
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	if len(list) < 20 {
		t.Fatalf("go list knows %d packages only", len(list))
	}
	return list
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for dir != filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	t.Fatal("no go.work above this package")
	return ""
}

// rule forbids what from imports of packages that match in, unless they match except.
type rule struct{ in, forbidden, except, reason string }

var rules = []rule{
	{`^kaged\.dev/proto/`, `^kaged\.dev/(pkg|services)/`, ``, "the contract depends on nobody"},
	{`^kaged\.dev/pkg/`, `^kaged\.dev/services/`, ``, "what services share knows no service"},
	{
		`/internal/core(/|$)`, `google\.golang\.org/(grpc|protobuf)|jackc/pgx|nats-io|kaged\.dev/proto/|kaged\.dev/pkg/(host|rpc|bus|postgres)|net/http$`, ``,
		"core is rules: it knows no transport, no store and no wire format",
	},
	{`/internal/server(/|$)`, `jackc/pgx|nats-io|/internal/store(/|$)`, ``, "a handler translates and delegates; it never reaches around core"},
	{`/internal/store(/|$)`, `google\.golang\.org/grpc|nats-io|net/http$`, ``, "a store is SQL"},
	{
		`.`, `kaged\.dev/pkg/host$`, `^kaged\.dev/(pkg/(host|testkit)(/|$)|services/[^/]+$|services/[^/]+/cmd/|services/kaged(/|$)|services/internal/)`,
		"only a service's module.go knows the host it runs in",
	},
	{`.`, `^kaged\.dev/pkg/testkit`, `^kaged\.dev/pkg/testkit|^kaged\.dev/services/(internal|kaged/internal/kagedtest)`, "test doubles stay in tests"},
	{`.`, `^testing$`, `^kaged\.dev/pkg/testkit|^kaged\.dev/services/(internal|kaged/internal/kagedtest)`, "code that ships does not link package testing"},
}

// Imports point down only; see docs/ARCHITECTURE.md, Layers.
func TestImportsPointDown(t *testing.T) {
	t.Parallel()
	service := regexp.MustCompile(`^kaged\.dev/services/([^/]+)`)
	for _, p := range packages(t) {
		for _, imp := range p.Imports {
			for _, r := range rules {
				if regexp.MustCompile(r.in).MatchString(p.ImportPath) && regexp.MustCompile(r.forbidden).MatchString(imp) &&
					(r.except == "" || !regexp.MustCompile(r.except).MatchString(p.ImportPath)) {
					t.Errorf("%s imports %s: %s", p.ImportPath, imp, r.reason)
				}
			}
			from, to := service.FindStringSubmatch(p.ImportPath), service.FindStringSubmatch(imp)
			if from != nil && to != nil && from[1] != to[1] && from[1] != "kaged" && from[1] != "internal" {
				t.Errorf("%s imports %s: a service never imports another", p.ImportPath, imp)
			}
		}
	}
}

// Every package says what it is for.
func TestEveryPackageHasADoc(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		if len(p.GoFiles) > 0 && p.Doc == "" && !strings.Contains(p.ImportPath, "/proto/gen/") {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
	}
}

// Every service has the same skeleton, so that who knows one knows all.
func TestEveryServiceHasTheSkeleton(t *testing.T) {
	t.Parallel()
	services := filepath.Join(root(t), "services")
	for _, name := range []string{"gateway", "session-manager", "harness", "tool-runner", "sandbox-supervisor"} {
		for _, file := range []string{"README.md", "doc.go", "module.go", "config.go", "service.go", "service_test.go", filepath.Join("cmd", name, "main.go")} {
			if _, err := os.Stat(filepath.Join(services, name, file)); err != nil {
				t.Errorf("services/%s has no %s", name, file)
			}
		}
	}
}

// Nobody asks whether it is all in one process: that is decided by the addresses alone.
func TestNobodyAsksWhereItRuns(t *testing.T) {
	t.Parallel()
	question := regexp.MustCompile(`(?i)is_?(all_?in_?one|single_?(binary|process))`)
	err := filepath.WalkDir(root(t), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "arch_test.go") {
			return err
		}
		src, err := os.ReadFile(path)
		if err == nil && question.Match(src) {
			t.Errorf("%s asks whether it is all in one", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
