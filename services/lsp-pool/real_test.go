package lsppool_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	lsppoolv1 "kaged.dev/proto/gen/kaged/lsppool/v1"
)

// broken is a program in one language, in a version with an error that its server finds, and in one without.
type broken struct {
	program, name string
	// with is the content with an error, says a part of the error's message, without the fixed content, symbol a name in
	// it that the server lists.
	with, says, without, symbol string
	// more are further files.
	more map[string]string
}

// T-LSP-DIAG-02, -SYNC-02: each built-in server that can be installed from npm or Debian works without configuration.
// It finds the error of a file, answers the next query for the fixed file, answers for a file that stays without
// errors, and lists its symbols.
func TestRealServers(t *testing.T) {
	t.Parallel()
	for lang, tt := range map[string]broken{
		"typescript": {
			program: "typescript-language-server", name: "a.ts",
			with: "import { total } from \"./b\";\nexport const sum: string = total(1);\n", says: "not assignable",
			without: "import { total } from \"./b\";\nexport const sum: number = total(1);\n", symbol: "sum",
			more: map[string]string{
				"b.ts":          "export function total(n: number): number { return n }\n",
				"tsconfig.json": "{\"compilerOptions\":{\"strict\":true}}\n",
			},
		},
		"python": {
			program: "pyright-langserver", name: "a.py", with: "def total() -> int:\n    return \"a\"\n",
			says: "not assignable", without: "def total() -> int:\n    return 1\n", symbol: "total",
		},
		"rust": {
			program: "rust-analyzer", name: "src/lib.rs",
			with: "pub fn total(n: i32) -> i32 { n }\npub fn sum() -> i32 { total(1, 2) }\n", says: "expected 1 argument",
			without: "pub fn total(n: i32) -> i32 { n }\npub fn sum() -> i32 { total(1) }\n", symbol: "sum",
			more: map[string]string{"Cargo.toml": "[package]\nname = \"m\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"},
		},
		"cpp": {
			program: "clangd-19", name: "a.cpp", with: "int total() { return missing; }\n",
			says: "undeclared identifier", without: "int total() { return 1; }\n", symbol: "total",
		},
		"bash": {program: "bash-language-server", name: "a.sh", without: "total() { echo 1; }\ntotal\n", symbol: "total"},
		"json": {
			program: "vscode-json-language-server", name: "a.json", with: "{\"total\": }\n", says: "expected",
			without: "{\"total\": 1}\n", symbol: "total",
		},
		"css": {
			program: "vscode-css-language-server", name: "a.css", with: ".total { color: red\n", says: "expected",
			without: ".total { color: red }\n", symbol: ".total",
		},
		"html": {
			program: "vscode-html-language-server", name: "a.html", without: "<div id=\"total\"></div>\n",
			symbol: "div#total",
		},
		"yaml": {
			program: "yaml-language-server", name: "a.yaml", with: "total: [1\nother: {\n", says: "flow",
			without: "total: 1\n", symbol: "total",
		},
	} {
		t.Run(lang, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(tt.program); err != nil {
				t.Fatalf("%s is missing; scripts/setup.sh test installs it", tt.program)
			}
			p := serve(t, "")
			for name, content := range tt.more {
				p.write(name, content)
			}
			p.shows(tt)
		})
	}
}

// users is the number of files that use the function of the first one.
const users = 40

// shared is a project of many files. The first one defines a function, and each other file calls it.
type shared struct {
	program, name, first string
	// user is the content of another file, for its number; more are further files, in which ROOT is the project's folder.
	user string
	more map[string]string
	// grows is the number of references to the function in a new file.
	grows int
}

// Every answer about a whole project is complete, as one agent gets it and as many at the same time do: the first one,
// which some servers give before they have read the files; one after a file has appeared, which some notice late; and
// those of parallel queries: pyright ends a search when another one begins.
func TestReferencesAreComplete(t *testing.T) {
	t.Parallel()
	var modules, commands strings.Builder
	for i := range users {
		fmt.Fprintf(&modules, "#[path = \"u%d.rs\"]\nmod u%d;\n", i, i)
		fmt.Fprintf(&commands, "{\"directory\":\"ROOT\",\"file\":\"u%d.cpp\",\"command\":\"cc -c u%d.cpp\"},\n", i, i)
	}
	for _, tt := range []shared{
		{
			program: "gopls", name: "a.go", first: "package a; func total() int { return 1 }\n",
			user: "package a\n\nvar v%d = total()\n", grows: 1,
			more: map[string]string{"go.mod": "module example.com/m\n\ngo 1.24\n"},
		},
		{
			program: "typescript-language-server", name: "a.ts", first: "export function total() { return 1 }\n",
			user: "import { total } from \"./a\";\nexport const v%d = total();\n", grows: 2,
			more: map[string]string{"tsconfig.json": "{}\n"},
		},
		{
			program: "pyright-langserver", name: "a.py", first: "def total():\n    return 1\n",
			user: "from a import total\nv%d = total()\n", grows: 2,
		},
		{
			program: "rust-analyzer", name: "a.rs", first: "pub fn total() -> i32 { 1 }\n",
			user: "pub fn f%d() -> i32 { crate::a::total() }\n",
			more: map[string]string{
				"Cargo.toml": "[package]\nname = \"m\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[lib]\npath = \"lib.rs\"\n",
				"lib.rs":     "mod a;\n" + modules.String(),
			},
		},
		{
			program: "clangd-19", name: "a.cpp", first: "int total() { return 1; }\n",
			user: "int total();\nint v%d = total();\n",
			more: map[string]string{"compile_commands.json": "[" + strings.TrimSuffix(commands.String(), ",\n") + "]\n"},
		},
	} {
		t.Run(tt.program, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(tt.program); err != nil {
				t.Fatalf("%s is missing; scripts/setup.sh test installs it", tt.program)
			}
			tt.check(t)
		})
	}
}

func (s shared) check(t *testing.T) {
	p := serve(t, "")
	for name, content := range s.more {
		p.write(name, strings.ReplaceAll(content, "ROOT", p.root))
	}
	path := p.write(s.name, s.first)
	use := func(i int) { p.write(fmt.Sprintf("u%d%s", i, filepath.Ext(s.name)), fmt.Sprintf(s.user, i)) }
	for i := range users {
		use(i)
	}
	check := func(want int) {
		t.Helper()
		res, err := p.ask(lsppoolv1.Action_ACTION_REFERENCES, path, func(r *lsppoolv1.QueryRequest) {
			r.Character = uint32(strings.Index(s.first, "total"))
		})
		if err != nil || len(res.GetLocations()) != want {
			t.Errorf("%d references instead of %d, %v: %v", len(res.GetLocations()), want, res.GetCompleteness(), err)
		}
	}
	want := users * max(s.grows, 1)
	check(want)
	for i := range 3 {
		use(users + i)
		want += s.grows
		check(want)
	}
	var asking sync.WaitGroup
	for range 8 {
		asking.Go(func() {
			for range 4 {
				check(want)
			}
		})
	}
	asking.Wait()
}

// TypeScript 7 is a language server itself. If it is installed, it answers: alone, and also if
// typescript-language-server is installed without a TypeScript that it can use.
func TestNativeTypeScript(t *testing.T) {
	t.Parallel()
	modules, err := filepath.Abs("../../bin/servers/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(modules, "native")); err != nil {
		t.Fatal("TypeScript 7 is missing; scripts/setup.sh test installs it")
	}
	for name, beside := range map[string]bool{"alone": false, "beside": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			programs := map[string]string{"tsc": filepath.Join(modules, "native", "bin", "tsc")}
			for _, program := range []string{"node", "sh"} {
				if programs[program], err = exec.LookPath(program); err != nil {
					t.Fatal(err)
				}
			}
			for program, at := range programs {
				if err := os.Symlink(at, filepath.Join(dir, program)); err != nil {
					t.Fatal(err)
				}
			}
			if beside { // its modules are in a folder without typescript
				at := filepath.Join(dir, "typescript-language-server")
				server, err := os.ReadFile(filepath.Join(modules, "typescript-language-server", "lib", "cli.mjs"))
				if err == nil {
					err = os.WriteFile(at+".mjs", server, 0o755)
				}
				if err == nil {
					err = os.Symlink(at+".mjs", at)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			p := serve(t, fmt.Sprintf("[lsp.servers.typescript]\nenv = {PATH = %q}\n", dir))
			p.write("tsconfig.json", "{\"compilerOptions\":{\"strict\":true}}\n")
			p.shows(broken{
				name: "a.ts", with: "export const sum: string = 1;\n", says: "not assignable",
				without: "export const sum: number = 1;\n", symbol: "sum",
			})
			if s := p.only(); s.GetCommand()[0] != "tsc" {
				t.Errorf("%v answered", s.GetCommand())
			}
		})
	}
}

// The bash server leaves errors to shellcheck. If shellcheck is installed, the first answer has its findings; otherwise
// an empty answer is marked as partial.
func TestBashWithAndWithoutShellcheck(t *testing.T) {
	t.Parallel()
	const finds = `#!/bin/sh
cat >/dev/null
echo '{"comments":[{"file":"-","line":1,"endLine":1,"column":1,"endColumn":2,"level":"error","code":1009,'
echo '"message":"found","fix":null}]}'
`
	for name, checker := range map[string]string{"with": finds, "without": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for _, program := range []string{"bash-language-server", "node", "sh", "cat"} {
				at, err := exec.LookPath(program)
				if err == nil {
					err = os.Symlink(at, filepath.Join(dir, program))
				}
				if err != nil {
					t.Fatalf("%v; scripts/setup.sh test installs it", err)
				}
			}
			if checker != "" {
				if err := os.WriteFile(filepath.Join(dir, "shellcheck"), []byte(checker), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			p := serve(t, fmt.Sprintf("[lsp.servers.bash]\nenv = {PATH = %q}\n", dir))
			res, err := p.ask(lsppoolv1.Action_ACTION_DIAGNOSTICS, p.write("a.sh", "total() { echo 1; }\n"), nil)
			if err != nil {
				t.Fatal(err)
			}
			state, reason := res.GetCompleteness().GetState(), res.GetCompleteness().GetReason()
			if checker != "" && (state != "ready" || len(res.GetDiagnostics()) != 1) {
				t.Errorf("%s, %s: %v", state, reason, res.GetDiagnostics())
			}
			if checker == "" && (state != "partial" || !strings.Contains(reason, "shellcheck")) {
				t.Errorf("%s, %s: %v", state, reason, res.GetDiagnostics())
			}
		})
	}
}

// shows fails the test unless a server finds the error of a file, and no error in the fixed file.
func (p *pool) shows(b broken) {
	p.t.Helper()
	said := func() string {
		res, err := p.ask(lsppoolv1.Action_ACTION_DIAGNOSTICS, p.root+"/"+b.name, func(r *lsppoolv1.QueryRequest) {
			r.Severity = 1
		})
		if err != nil {
			p.t.Fatal(err)
		}
		var all []string
		for _, d := range res.GetDiagnostics() {
			all = append(all, d.GetMessage())
		}
		return strings.Join(all, "; ")
	}
	if b.with != "" {
		p.write(b.name, b.with)
		if got := said(); !strings.Contains(strings.ToLower(got), b.says) {
			p.t.Errorf("errors %q, want %q", got, b.says)
		}
	}
	p.write(b.name, b.without)
	if got := said(); got != "" {
		p.t.Errorf("errors %q of a file that was mended", got)
	}
	p.write(b.name, b.without+"\n")
	if got := said(); got != "" {
		p.t.Errorf("errors %q of a file that stays without", got)
	}
	res, err := p.ask(lsppoolv1.Action_ACTION_SYMBOLS, p.root+"/"+b.name, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, s := range res.GetSymbols() {
		if s.GetName() == b.symbol {
			return
		}
	}
	p.t.Errorf("no symbol %s among %v", b.symbol, res.GetSymbols())
}
