// Package arch holds the tests that compare the tree with docs/ARCHITECTURE.md.
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
	ImportPath, Dir, Name, Doc string
	Imports                    []string
	TestImports                []string
	GoFiles                    []string
}

func packages(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.CommandContext(
		t.Context(),
		"go",
		"list",
		"-e",
		"-json=ImportPath,Dir,Name,Doc,Imports,TestImports,GoFiles",
		"kaged.dev/...",
	)
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

// rule forbids imports that match forbidden in packages that match in, unless they match except.
type rule struct{ in, forbidden, except, reason string }

var rules = []rule{
	{`^kaged\.dev/proto/`, `^kaged\.dev/(pkg|services)/`, ``, "the contract depends on nobody"},
	{`^kaged\.dev/pkg/`, `^kaged\.dev/services/`, ``, "what services share knows no service"},
	{`^kaged\.dev/(proto|pkg|services)/`, `^kaged\.dev/test/`, ``, "the product knows no room for tests and measurements"},
	{
		`/gen/kaged/(common|harness|toolrunner|lsppool|dappool|sandboxsupervisor)/`,
		`/gen/kaged/(api|sessionmanager|gateway|issue)/`, ``,
		"the contracts of the harness and the workspace name nothing that is public",
	},
	{
		`/gen/kaged/api/`,
		`/gen/kaged/(harness|toolrunner|lsppool|dappool|sandboxsupervisor|sessionmanager|gateway|issue)/`, ``,
		"a public message holds no internal one",
	},
	{
		`^kaged\.dev/(pkg|services)/`, `/gen/(kaged/api/|backends$)`,
		`^kaged\.dev/(pkg/frametype/internal/gen$|pkg/client(/|$)|services/(gateway|session-manager|issue|kaged)(/|$))`,
		"kaged.api.v1 is what clients see: the gateway, the services behind its routes and the client alone speak it",
	},
	{
		`^kaged\.dev/services/[^/]+/`, `/gen/kaged/(sessionmanager|gateway)/`,
		`^kaged\.dev/services/(gateway|session-manager|kaged)(/|$)`,
		"the harness and the workspace know no service above them",
	},
	{`^kaged\.dev/services/session-manager(/|$)`, `/gen/kaged/gateway/`, ``, "session-manager does not know the gateway"},
	{
		`/session-manager/internal/(projects|operators|audit|logs)(/|$)`,
		`/session-manager/internal/sessions/(server|store|core/(lease|live|frames|runs|sessions))(/|$)`, ``,
		"sessions alone knows leases, fences and frames",
	},
	{
		`/internal/([a-z]+/)?core(/|$)`, `^kaged\.dev/pkg/(contract/|llm/llmproto$)`, ``,
		"core uses the values of pkg/contract; their wire forms are for its borders",
	},
	{
		`/internal/([a-z]+/)?core(/|$)`,
		`google\.golang\.org/(grpc|protobuf)|jackc/pgx|nats-io|kaged\.dev/proto/|kaged\.dev/pkg/(host|rpc|bus|postgres)|net/http$`, ``,
		"core is rules: it knows no transport, no store and no wire format",
	},
	{
		`^kaged\.dev/pkg/(workspace/|sandbox(/env)?$|search$|syntax$|astgrep$|edit$|patch$|shellguard$)`,
		`google\.golang\.org/(grpc|protobuf)|kaged\.dev/proto/|kaged\.dev/pkg/(host|rpc|bus|postgres|config|llm)|net/http$`,
		``,
		"the workspace kit is rules about files and commands; pkg/sandbox/supervisor alone speaks gRPC",
	},
	{
		`/internal/([a-z]+/)?core(/|$)`,
		`^kaged\.dev/pkg/sandbox/supervisor$`,
		``,
		"core runs commands through the interfaces of pkg/sandbox",
	},
	{
		`/internal/([a-z]+/)?server(/|$)`,
		`jackc/pgx|nats-io|/internal/([a-z]+/)?store(/|$)`,
		``,
		"a handler translates and delegates; it never reaches around core",
	},
	{`/internal/([a-z]+/)?store(/|$)`, `google\.golang\.org/grpc|nats-io|net/http$`, ``, "a store is SQL"},
	{
		`.`, `kaged\.dev/pkg/host$`,
		`^kaged\.dev/(pkg/(host|testkit)(/|$)|services/[^/]+$|services/[^/]+/cmd/|services/kaged(/|$)|test/)`,
		"only a service's module.go knows the host it runs in",
	},
	{
		`.`,
		`^kaged\.dev/pkg/testkit`,
		`^kaged\.dev/(pkg/testkit|test/|services/session-manager/internal/storetest$)`,
		"test doubles stay in tests",
	},
	{
		`.`,
		`^testing$`,
		`^kaged\.dev/(pkg/testkit|test/|services/session-manager/internal/storetest$)`,
		"code that ships does not link package testing",
	},
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
			if from != nil && to != nil && from[1] != to[1] && from[1] != "kaged" {
				t.Errorf("%s imports %s: a service never imports another", p.ImportPath, imp)
			}
		}
	}
}

// Core packages may import pkg/contract and pkg/llm because these do not link gRPC, so that a test of core links
// quickly.
func TestValuesLinkNoTransport(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "kaged.dev/pkg/contract", "kaged.dev/pkg/llm")
	cmd.Dir = root(t)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for dep := range strings.FieldsSeq(string(out)) {
		if regexp.MustCompile(`^google\.golang\.org/grpc(/|$)|jackc/pgx|nats-io`).MatchString(dep) {
			t.Errorf("the values link %s, want messages alone", dep)
		}
	}
}

// Every package states its purpose.
func TestEveryPackageHasADoc(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		if len(p.GoFiles) > 0 && p.Doc == "" && !strings.Contains(p.ImportPath, "/proto/gen/") {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
	}
}

// Every service has the same skeleton.
func TestEveryServiceHasTheSkeleton(t *testing.T) {
	t.Parallel()
	services := filepath.Join(root(t), "services")
	modules, err := filepath.Glob(filepath.Join(services, "*", "module.go"))
	if err != nil || len(modules) == 0 {
		t.Fatalf("services with a module.go: %v, %v", modules, err)
	}
	for _, module := range modules {
		name := filepath.Base(filepath.Dir(module))
		for _, file := range []string{
			"README.md", "doc.go", "config.go", "service.go", "service_test.go", filepath.Join("cmd", name, "main.go"),
		} {
			if _, err := os.Stat(filepath.Join(services, name, file)); err != nil {
				t.Errorf("services/%s has no %s", name, file)
			}
		}
	}
}

// Each of these helpers exists once: a copy in product code is refused.
func TestCopiesOfHelpers(t *testing.T) {
	t.Parallel()
	helpers := map[string]*regexp.Regexp{
		"retry": regexp.MustCompile(
			`min\(2 ?\* ?\w+, |\b(pause|wait|delay|backoff) \*= 2|func wait\(ctx context\.Context, \w+ time\.Duration\)` +
				`|select \{\n\t+case <-time\.After\([^\n]*\):\n\t+case <-ctx\.Done\(\)` +
				`|select \{\n\t+case <-ctx\.Done\(\):\n\t+return[^\n]*\n\t+case <-time\.After\(`,
		),
		"clip":     regexp.MustCompile(`ToValidUTF8\(\w+\[:|\[\]rune\([^)]*\); len\(`),
		"optional": regexp.MustCompile(`if (\w+) == (""|0) \{\n\t\treturn nil\n\t\}\n\treturn &\w+\n`),
	}
	for _, p := range packages(t) {
		if strings.HasPrefix(p.ImportPath, "kaged.dev/test/") {
			continue
		}
		for _, file := range p.GoFiles {
			src, err := os.ReadFile(filepath.Join(p.Dir, file))
			if err != nil {
				t.Fatal(err)
			}
			for helper, byHand := range helpers {
				if found := byHand.Find(src); found != nil && p.ImportPath != "kaged.dev/pkg/"+helper {
					t.Errorf("%s/%s has %q: use pkg/%s", p.ImportPath, file, found, helper)
				}
			}
		}
	}
}

// No code checks whether the services share a process: only the addresses decide.
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
