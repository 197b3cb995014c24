package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kaged.dev/test/e2e/kagedtest"
)

// docs/howto/add-a-language-server.md, typed unchanged: the operator's table makes a new language answer, doctor lists
// it, and the project's list has precedence once its programs are accepted. The documented zls is a server of another
// language under that name.
func TestAddALanguageServerIsTyped(t *testing.T) {
	t.Parallel()
	const howto, heading = "docs/howto/add-a-language-server.md", "Another program, another language"
	w := kagedtest.NewWorld(t, kagedtest.Block(t, howto, heading, "toml"))
	n := w.Newcomer(t)
	servers, err := filepath.Abs("../../bin/servers/node_modules/.bin")
	if err != nil {
		t.Fatal(err)
	}
	kagedtest.Write(t, n.Dir, "bin/zls", "#!/bin/sh\nexec "+servers+"/yaml-language-server --stdio\n")
	if err := os.Chmod(filepath.Join(n.Dir, "bin/zls"), 0o755); err != nil {
		t.Fatal(err)
	}
	kagedtest.Write(t, n.Dir, "zig/main.zig", "one: [1, 2\n")
	kagedtest.Write(t, n.Dir, "zig/.kaged/.keep", "")
	path := "export PATH=" + n.Dir + "/bin:$PATH\ncd zig\n"
	typed := func(lines string) string {
		t.Helper()
		return n.Types(t, path+lines)
	}
	if out := typed(kagedtest.Block(t, howto, heading, "sh")); !strings.Contains(out, `"severity":"error"`) {
		t.Errorf("the new language has no diagnostics: %s", out)
	}
	if out := typed("kaged doctor || true\n"); !strings.Contains(out, "zls") {
		t.Errorf("doctor does not name the language: %s", out)
	}

	kagedtest.Write(t, n.Dir, "zig/prompt.md", "You work.\n")
	kagedtest.Write(t, n.Dir, "zig/.kaged/project.yaml", beforeApprovals("zig")+kagedtest.Block(t, howto, heading, "yaml"))
	kagedtest.Write(t, n.Dir, "zig/go.mod", "module example.com/zig\n\ngo 1.24\n")
	kagedtest.Write(t, n.Dir, "zig/main.go", "package main\n\nfunc main() { missing() }\n")
	const status = `kaged tools call --yes - <<'END'
{"tool": "code.lsp", "params": {"action": "diagnostics", "path": "main.go"}}
{"tool": "code.lsp", "params": {"action": "status"}}
END
`
	out := typed(status)
	if !strings.Contains(out, "undefined: missing") || !strings.Contains(out, `"command":"gopls -remote=auto"`) {
		t.Errorf("the project's server does not answer: %s", out)
	}
}
