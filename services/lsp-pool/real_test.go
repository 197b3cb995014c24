package lsppool_test

import (
	"os/exec"
	"strings"
	"testing"

	lsppoolv1 "kaged.dev/proto/gen/kaged/lsppool/v1"
)

// broken is a program in one language: with an error that its server finds, and without.
type broken struct {
	program, name string
	// with is the content with an error, says a part of the message, without the content after it was mended, symbol a
	// name in it that the server lists.
	with, says, without, symbol string
	// more are further files.
	more map[string]string
}

// T-LSP-DIAG-02, -SYNC-02: each built-in server that can be installed from npm and Debian works without configuration:
// it finds the error of a file, sees at the next question that the file was mended, and lists its symbols.
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

// shows fails the test unless a server finds the error of a file, and finds it mended.
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
