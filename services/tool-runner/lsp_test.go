package toolrunner_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/host"
	"kaged.dev/pkg/testkit"
	lsppool "kaged.dev/services/lsp-pool"
	sandboxsupervisor "kaged.dev/services/sandbox-supervisor"
	toolrunner "kaged.dev/services/tool-runner"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// besidePool returns a tool runner with lsp-pool and a sandbox supervisor, and with text as the operator's
// configuration.
func besidePool(t *testing.T, text string) *client {
	t.Helper()
	opts := testkit.Options(t)
	var err error
	if opts.File, err = config.Parse("local.toml", []byte(text)); err != nil {
		t.Fatal(err)
	}
	opts.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	h, err := host.New(opts, toolrunner.Module, lsppool.Module, sandboxsupervisor.Module)
	if err != nil {
		t.Fatal(err)
	}
	running := testkit.Start(t, h)
	t.Cleanup(func() { testkit.Stop(t, running) })
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &client{toolrunnerv1.NewToolRunnerServiceClient(h.Dial("tool-runner")), t, root, nil}
}

// withLanguages returns a tool runner with real language servers and a Go module as project.
func withLanguages(t *testing.T) *client {
	t.Helper()
	if _, err := exec.LookPath("gopls"); err != nil {
		t.Fatal("gopls is missing; scripts/setup.sh test installs it")
	}
	c := besidePool(t, "")
	c.write("go.mod", "module example.com/m\n\ngo 1.24\n")
	c.write("shape/shape.go",
		"package shape\n\n// Area has a size.\ntype Area interface {\n\t// Size is in square metres.\n\tSize() "+
			"int\n}\n\nvar _ Area = Square{}\n\ntype Square struct{ Side int }\n\nfunc (s Square) Size() int { return s.Side "+
			"* s.Side }\n")
	c.write("main.go", "package main\n\nimport \"example.com/m/shape\"\n\nfunc main() {\n\tvar a shape.Area = "+
		"shape.Square{Side: 2}\n\tprintln(\"é😀\", a.Size(), a.Size())\n}\n")
	return c
}

// lsp calls code.lsp and decodes its result, or its error, into a map.
func (c *client) lsp(input string, adjust ...func(*toolrunnerv1.ToolContext)) map[string]any {
	c.t.Helper()
	req := c.request("code.lsp", input)
	for _, change := range adjust {
		change(req.Context)
	}
	_, result, err := c.run(req)
	if err != nil {
		c.t.Fatalf("%s: %v", input, err)
	}
	var content map[string]any
	if err := json.Unmarshal([]byte(result.GetContent()), &content); err != nil {
		c.t.Fatalf("%s answered %q", input, result.GetContent())
	}
	return content
}

func text(value any) string {
	data, _ := json.Marshal(value)
	return string(data)
}

// want fails the test for each part that is not in a result.
func (c *client) want(got any, parts ...string) {
	c.t.Helper()
	for _, part := range parts {
		if !strings.Contains(text(got), part) {
			c.t.Errorf("%s is missing in %s", part, text(got))
		}
	}
}

// An agent queries a program, adds an error, reads the diagnostics, and fixes the error. Every answer reflects the
// present files (T-LSP-DIAG-02, -DIAG-05, -DEF-01, -REFS-01, -REFS-02, -SYM-01, -SYM-04, -HOVER-01, -EXT-02..07,
// T-LSP-SYNC-02, T-LSP-LIFE-05).
func TestCodeLsp(t *testing.T) {
	t.Parallel()
	c := withLanguages(t)
	c.want(c.lsp(`{"action":"status"}`), `{"servers":[]}`)
	c.want(c.lsp(`{"action":"diagnostics","path":"./main.go"}`), `"diagnostics":[]`, `"count":0`, `"path":"./main.go"`,
		`"state":"ready"`)
	c.want(c.lsp(`{"action":"definition","path":"./main.go","line":7,"character":20}`), `"path":"./shape/shape.go"`,
		`"line":6`, `"preview":"Size() int"`)
	c.want(c.lsp(`{"action":"definition","path":"./main.go","line":7,"symbol":"Size#2"}`), `"line":6`)
	c.want(c.lsp(`{"action":"implementation","path":"./shape/shape.go","line":6,"symbol":"Size"}`), `"line":13`)
	c.want(c.lsp(`{"action":"type_definition","path":"./main.go","line":7,"symbol":"a"}`), `"line":4`)
	c.want(c.lsp(`{"action":"references","path":"./shape/shape.go","line":6,"symbol":"Size"}`), `"count":2`)
	c.want(c.lsp(`{"action":"references","path":"./shape/shape.go","line":6,"symbol":"Size","include_declaration":true}`),
		`"path":"./shape/shape.go"`)
	c.want(c.lsp(`{"action":"hover","path":"./main.go","line":7,"symbol":"Size"}`), `Size() int`, `square metres`,
		`"start":{"character":18,"line":7}`)
	c.want(c.lsp(`{"action":"symbols","path":"./shape/shape.go"}`), `"kind":"interface"`, `"name":"Square"`)
	c.want(c.lsp(`{"action":"symbols","path":"./main.go","scope":"workspace","query":"Square"}`),
		`"path":"./shape/shape.go"`)
	c.want(c.lsp(`{"action":"capabilities","path":"./main.go"}`), `definitionProvider`)
	c.want(c.lsp(`{"action":"request","path":"./main.go","method":"workspace/executeCommand","params":"{}"}`),
		`capability_denied`)
	c.want(c.lsp(`{"action":"request","path":"./main.go","method":"textDocument/documentHighlight","params":`+
		`"{\"textDocument\":{\"uri\":\"file://`+c.root+`/main.go\"},\"position\":{\"line\":5,\"character\":5}}"}`), `range`)
	c.callHierarchy()
	c.want(c.lsp(`{"action":"hover","path":"./main.go","line":7}`), `invalid_params`, `"field":"character"`)
	c.want(c.lsp(`{"action":"hover","path":"./main.go","line":7,"symbol":"Nothing"}`), `invalid_params`, `println`)
	c.want(c.lsp(`{"action":"fly","path":"./main.go"}`), `invalid_params`)

	c.call("file.read", `{"path":"./shape/shape.go"}`)
	_, result := c.call("edit.text", `{"path":"./shape/shape.go","old_string":"func (s Square) Size() int",`+
		`"new_string":"func (s Square) Sise() int"}`)
	if result.GetError() != nil || !strings.Contains(result.GetContent(), "missing method Size") {
		t.Fatalf("the errors of an edit: %v, %s", result.GetError(), result.GetContent())
	}
	c.want(c.lsp(`{"action":"diagnostics","path":".","severity":"error"}`), `missing method Size`, `"path":"./main.go"`,
		`"severity":"error"`)
	c.write("shape/shape.go", strings.ReplaceAll(read(t, c, "shape/shape.go"), "Sise", "Size")) // as an editor does
	c.want(c.lsp(`{"action":"diagnostics","path":".","severity":"error"}`), `"count":0`)
	status := c.lsp(`{"action":"status"}`)
	c.want(status, `"lang":"go"`, `"command":"gopls"`, `"restart_count":0`)
	c.want(c.lsp(`{"action":"reload"}`), `"state":"stopped"`)
	c.want(c.lsp(`{"action":"diagnostics","path":"./main.go"}`), `"count":0`)
}

// callHierarchy asks for the callers of a method, by two requests.
func (c *client) callHierarchy() {
	c.t.Helper()
	request := func(method string, params any) string {
		answer, _ := c.lsp(text(map[string]any{
			"action": "request", "path": "./main.go", "method": method, "params": text(params),
		}))["json"].(string)
		return answer
	}
	var items []json.RawMessage
	found := request("textDocument/prepareCallHierarchy", map[string]any{
		"textDocument": map[string]string{"uri": "file://" + c.root + "/shape/shape.go"},
		"position":     map[string]int{"line": 12, "character": 16},
	})
	if err := json.Unmarshal([]byte(found), &items); err != nil || len(items) != 1 {
		c.t.Fatalf("call hierarchy of Size: %q, %v", found, err)
	}
	if got := request("callHierarchy/incomingCalls", map[string]any{"item": items[0]}); !strings.Contains(got, `"main"`) {
		c.t.Errorf("the callers of Size are %s", got)
	}
}

// An agent lists and ends the servers that it shares. The servers of an agent with another cage continue.
func TestReloadIsTheCallersOwn(t *testing.T) {
	t.Parallel()
	c := withLanguages(t)
	policy := &commonv1.CagePolicy{Seccomp: "default", State: "ephemeral", Fs: []*commonv1.CageMount{
		{Mode: "ro", Path: "project:/"},
	}}
	caged := func(x *toolrunnerv1.ToolContext) { x.Caller, x.Cage = "primary.subagents.coder", policy }
	c.want(c.lsp(`{"action":"diagnostics","path":"./main.go"}`), `"count":0`)
	c.want(c.lsp(`{"action":"status"}`, caged), `{"servers":[]}`)
	c.want(c.lsp(`{"action":"diagnostics","path":"./main.go"}`, caged), `"count":0`)
	own := text(c.lsp(`{"action":"status"}`))
	if strings.Count(own, `"lang"`) != 1 {
		t.Errorf("the servers of an uncaged agent: %s", own)
	}
	c.want(c.lsp(`{"action":"reload"}`, caged), `"state":"stopped"`)
	if now := text(c.lsp(`{"action":"status"}`)); now != own {
		t.Errorf("after the reload of another: %s, was %s", now, own)
	}
}

func read(t *testing.T, c *client, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(c.root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// T-LSP-RENAME-02..05, T-LSP-EXT-01, T-LSP-CA-02: a rename changes all files or none, and can be previewed. Fixes are
// edits that edit.text can make.
func TestCodeLspRename(t *testing.T) {
	t.Parallel()
	c := withLanguages(t)
	before := read(t, c, "main.go")
	preview := c.lsp(`{"action":"rename","path":"./shape/shape.go","line":6,` +
		`"symbol":"Size","new_name":"Extent","apply":false}`)
	c.want(preview, `"applied":false`, `+\tprintln(\"é😀\", a.Extent(), a.Extent())`, `"files_changed":2`)
	if read(t, c, "main.go") != before {
		t.Fatal("a preview changed a file")
	}
	done := c.lsp(`{"action":"rename","path":"./shape/shape.go","line":6,"symbol":"Size","new_name":"Extent"}`)
	c.want(done, `"applied":true`, `{"edits":2,"path":"./main.go"}`, `"files_changed":2`)
	if got := read(t, c, "main.go"); got != strings.ReplaceAll(before, "Size", "Extent") || !strings.Contains(read(t, c,
		"shape/shape.go"), "func (s Square) Extent() int") {
		t.Errorf("main.go is %s\nshape.go is %s", got, read(t, c, "shape/shape.go"))
	}
	c.want(c.lsp(`{"action":"diagnostics","path":"."}`), `"count":0`)
	c.want(c.lsp(`{"action":"rename","path":"./main.go","line":5,"character":0,"new_name":"x"}`), `rename_not_possible`)

	// If one file cannot be written, no file is changed.
	locked := filepath.Join(c.root, "shape")
	if os.Getuid() != 0 {
		if err := os.Chmod(locked, 0o555); err != nil {
			t.Fatal(err)
		}
		c.want(c.lsp(`{"action":"rename","path":"./main.go","line":7,"symbol":"Extent","new_name":"Size"}`), `error`)
		if read(t, c, "main.go") == before {
			t.Error("half a rename was made")
		}
		if err := os.Chmod(locked, 0o755); err != nil {
			t.Fatal(err)
		}
	}

	// A rename needs a tool that changes files.
	reader := func(x *toolrunnerv1.ToolContext) { x.Tools = []string{"code.lsp", "file.read"} }
	if got := text(c.lsp(`{"action":"rename","path":"./main.go","line":7,"symbol":"Extent","new_name":"Size"}`,
		reader)); !strings.Contains(got, "capability_denied") && !strings.Contains(got, "cage_unavailable") {
		t.Errorf("an agent that only reads renamed: %s", got)
	}

	c.write("bad.go", "package main\n\nfunc unused() {\n\tx := 1\n}\n")
	actions := c.lsp(`{"action":"code_actions","path":"./bad.go","line":4,"character":1}`)
	c.want(actions, `"kind":"quickfix"`, `"path":"./bad.go"`)
	if got := read(t, c, "bad.go"); !strings.Contains(got, "x := 1") {
		t.Errorf("a code action was made: %s", got)
	}
	for _, a := range actions["actions"].([]any) {
		for _, e := range a.(map[string]any)["edits"].([]any) {
			edit := e.(map[string]any)
			if strings.Count(read(t, c, strings.TrimPrefix(edit["path"].(string), "./")), edit["old"].(string)) != 1 {
				t.Errorf("edit.text cannot make %v", edit)
			}
		}
	}

	moved := c.lsp(`{"action":"rename_file","path":"./bad.go","new_path":"./worse.go"}`)
	c.want(moved, `"moved_to":"./worse.go"`, `"applied":true`)
	if _, err := os.Stat(filepath.Join(c.root, "bad.go")); err == nil || !strings.Contains(read(t, c, "worse.go"),
		"x := 1") {
		t.Error("the file was not moved")
	}
}

// T-FM-10, T-LSP-RENAME-03, T-LSP-COMMON-06, T-AVAIL-05, -06: a server answers a caged agent with the files of the
// cage, and a rename of files outside the cage is refused.
func TestCodeLspInACage(t *testing.T) {
	t.Parallel()
	c := withLanguages(t)
	policy := &commonv1.CagePolicy{Seccomp: "default", State: "ephemeral", Fs: []*commonv1.CageMount{
		{Mode: "ro", Path: "project:/go.mod"}, {Mode: "rw", Path: "project:/shape"}, {Mode: "ro", Path: "project:/main.go"},
	}}
	caged := func(x *toolrunnerv1.ToolContext) { x.Caller, x.Cage = "primary.subagents.coder", policy }
	hover := c.lsp(`{"action":"hover","path":"./shape/shape.go","line":6,"symbol":"Size"}`, caged)
	if strings.Contains(text(hover), "cage_unavailable") {
		t.Fatal("no cages on this machine")
	}
	c.want(hover, `square metres`)
	before := read(t, c, "shape/shape.go")
	c.want(c.lsp(`{"action":"rename","path":"./shape/shape.go","line":6,"symbol":"Size","new_name":"Extent"}`, caged),
		`rename_scope_exceeds_cage`, `./main.go`)
	if read(t, c, "shape/shape.go") != before {
		t.Error("half a rename was made")
	}
	policy.Fs[2].Mode = "rw"
	c.want(c.lsp(`{"action":"rename","path":"./shape/shape.go","line":6,"symbol":"Size","new_name":"Extent"}`, caged),
		`"files_changed":2`)
	c.write("secret/secret.go", "package secret\n\nconst Key = \"the-secret\"\n")
	c.want(c.lsp(`{"action":"hover","path":"./secret/secret.go","line":3,"symbol":"Key"}`, caged), `capability_denied`)
	if got := text(c.lsp(`{"action":"symbols","path":"./main.go","scope":"workspace","query":"Key"}`,
		caged)); strings.Contains(got, "secret") {
		t.Errorf("the server saw what the cage does not show: %s", got)
	}
}
