package toolrunner_test

import (
	"testing"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// T-LSP-COMMON-05, -07, T-LSP-DIAG-04, T-LSP-CA-03: the first call of an agent with read access only is answered,
// without an open or a start before it. Its rename is refused, and code actions change no file.
func TestCodeLspOfAReader(t *testing.T) {
	t.Parallel()
	c := withLanguages(t)
	reader := func(x *toolrunnerv1.ToolContext) {
		x.Caller = "primary.subagents.reader"
		x.Cage = &commonv1.CagePolicy{
			Seccomp: "default", State: "ephemeral", Fs: []*commonv1.CageMount{{Mode: "ro", Path: "project:/"}},
		}
	}
	c.write("shape/shape.go", "package shape\n\nfunc size() int { return \"1\" }\n")
	before := read(t, c, "shape/shape.go")
	c.want(c.lsp(`{"action":"diagnostics","path":"./shape/shape.go"}`, reader), `cannot use`)
	c.want(c.lsp(`{"action":"hover","path":"./shape/shape.go","line":3,"symbol":"size"}`, reader), `func size() int`)
	c.want(c.lsp(`{"action":"code_actions","path":"./shape/shape.go","line":3,"character":5}`, reader), `"actions":[`)
	c.want(c.lsp(`{"action":"rename","path":"./shape/shape.go","line":3,"symbol":"size","new_name":"extent"}`, reader),
		`"error":{"code":`, `shape.go`)
	if after := read(t, c, "shape/shape.go"); after != before {
		t.Errorf("the file is\n%s\nand was\n%s", after, before)
	}
}
