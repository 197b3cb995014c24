package toolrunner_test

import (
	"fmt"
	"strings"
	"testing"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// T-REG-12, T-LSP-COMMON-02: code.lsp has these fourteen actions.
func TestCodeLspActions(t *testing.T) {
	t.Parallel()
	c := besidePool(t, "")
	list, err := c.ListTools(t.Context(), &toolrunnerv1.ListToolsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	const want = `"enum":["diagnostics","definition","references","symbols","rename","rename_file","code_actions",` +
		`"hover","type_definition","implementation","status","reload","capabilities","request"]`
	found := 0
	for _, tool := range list.GetTools() {
		if !strings.HasPrefix(tool.GetName(), "code.") {
			continue
		}
		found++
		if schema := text(tool.GetInputSchema().AsMap()); !strings.Contains(schema, want) {
			t.Errorf("the actions of %s are not those of the list: %s", tool.GetName(), schema)
		}
	}
	if found != 1 {
		t.Errorf("the namespace code has %d tools, want one", found)
	}
}

// T-LSP-COMMON-01, -03, -04, T-LSP-RENAME-01, T-LSP-SYM-02: the error names a missing parameter, and parameters are
// flat.
func TestCodeLspMissingParameters(t *testing.T) {
	t.Parallel()
	c := besidePool(t, "")
	c.write("a.go", "package a\n")
	for input, field := range map[string]string{
		`{"action":"definition","line":1,"character":0}`:                                   "path",
		`{"action":"definition","path":"a.go","character":0}`:                              "line",
		`{"action":"references","path":"a.go","line":1}`:                                   "character",
		`{"action":"rename","path":"a.go","line":1,"character":0}`:                         "new_name",
		`{"action":"symbols","path":"a.go","scope":"workspace"}`:                           "query",
		`{"action":"hover","params":{"path":"a.go","line":1,"character":0},"path":"a.go"}`: "params",
		`{"action":"fly","path":"a.go"}`:                                                   "action",
	} {
		got := text(c.lsp(input))
		named := strings.Contains(got, `"field":"`+field+`"`) || strings.Contains(got, `"fields":{"`+field+`"`)
		if !strings.Contains(got, `"invalid_params"`) || !named {
			t.Errorf("%s answered %s, want invalid_params about %s", input, got, field)
		}
	}
	c.want(c.lsp(`{"action":"hover","path":"a.go","symbol":"a"}`),
		`"field":"line"`, `symbol is a text of that line`, `the action symbols with the scope workspace`)
}

// T-LSP-SYM-03, -DIAG-01, -CA-01: the number of symbols is limited, diagnostics are selected by severity, and code
// actions can be requested without those that fix diagnostics.
func TestCodeLspChoices(t *testing.T) {
	t.Parallel()
	c := withLanguages(t)
	var many strings.Builder
	many.WriteString("package main\n")
	for i := range 80 {
		fmt.Fprintf(&many, "\nfunc f%d() {}\n", i)
	}
	c.write("many.go", many.String())
	c.want(c.lsp(`{"action":"symbols","path":"many.go"}`), `"count":50`, `"state":"partial"`)
	c.want(c.lsp(`{"action":"symbols","path":"many.go","limit":10}`), `"count":10`)
	c.want(c.lsp(`{"action":"symbols","path":"many.go","limit":100}`), `"count":80`, `"state":"ready"`)

	c.write("bad.go", "package main\n\nfunc bad() int {\n\tx := 1\n\treturn 2\n}\n")
	c.want(c.lsp(`{"action":"diagnostics","path":"bad.go","severity":"error"}`), `"count":1`, `"severity":"error"`)
	c.want(c.lsp(`{"action":"code_actions","path":"bad.go","line":4,"character":1}`), `"kind":"quickfix"`)
	if got := text(c.lsp(`{"action":"code_actions","path":"bad.go","line":4,"character":1,` +
		`"include_diagnostics":false}`)); strings.Contains(got, `"kind":"quickfix"`) {
		t.Errorf("fixes of diagnostics are among %s", got)
	}
}

// T-LSP-CFG-08: the server of a project with a caged agent is looked for in a cage, also for a caller without one, and
// the error names the owner of that cage.
func TestMissingServerOfACagedProject(t *testing.T) {
	t.Parallel()
	c := besidePool(t, "[lsp.servers.go]\ncommand = [\"/nowhere/gopls\"]\n")
	c.write("a.go", "package a\n")
	c.want(c.lsp(`{"action":"hover","path":"a.go","line":1,"character":0}`, func(x *toolrunnerv1.ToolContext) {
		x.ProjectCaged = true
	}), `"lsp_server_not_found"`, `/nowhere/gopls, is not in its cage. To install it: `)
}
