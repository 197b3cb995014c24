package lsppool_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	lsppoolv1 "kaged.dev/proto/gen/kaged/lsppool/v1"
)

// The operator sees, for each language, the installed program, whether a cage shows it with its interpreter, and the
// command to install it. Cages show a folder named in read.
func TestFindServers(t *testing.T) {
	t.Parallel()
	home, shown := t.TempDir(), t.TempDir()
	script := func(dir, name, line string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(line+"\necho\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	hidden := script(home, "hidden-ls", "#!/bin/sh")
	named := script(shown, "named-ls", "#!/bin/sh")
	by := script(shown, "by-ls", "#!"+script(home, "interpreter", "#!/bin/sh"))
	p := serve(t, fmt.Sprintf("[lsp.servers.system]\ncommand = [\"sh\"]\n[lsp.servers.hidden]\ncommand = [%q]\n"+
		"[lsp.servers.named]\ncommand = [%q]\nread = [%q]\n[lsp.servers.by]\ncommand = [%q]\nread = [%q]\n"+
		"[lsp.servers.absent]\ncommand = [\"kaged-no-such-server\", \"--stdio\"]\n", hidden, named, shown, by, shown))
	res, err := p.FindServers(t.Context(), &lsppoolv1.FindServersRequest{})
	if err != nil {
		t.Fatal(err)
	}
	of := func(lang string) *lsppoolv1.FoundServer {
		i := slices.IndexFunc(res.GetServers(), func(s *lsppoolv1.FoundServer) bool { return s.GetLang() == lang })
		if i < 0 {
			t.Fatalf("no %s among %v", lang, res.GetServers())
		}
		return res.GetServers()[i]
	}
	if s := of("system"); !filepath.IsAbs(s.GetProgram()) || s.GetCagedProgram() != s.GetProgram() {
		t.Errorf("a program of the system: %v", s)
	}
	if s := of("hidden"); s.GetProgram() != hidden || s.GetCagedProgram() != "" ||
		s.GetCagedReason() != "A cage does not show "+hidden+"." {
		t.Errorf("a program in a folder that cages lack: %v", s)
	}
	if s := of("named"); s.GetCagedProgram() != named {
		t.Errorf("a program in a folder that the operator names: %v", s)
	}
	if s := of("by"); s.GetProgram() != by || s.GetCagedProgram() != "" ||
		!strings.Contains(s.GetCagedReason(), "interpreter") {
		t.Errorf("a script whose interpreter cages lack: %v", s)
	}
	if s := of("absent"); s.GetProgram() != "" || s.GetCagedProgram() != "" || s.GetCommand()[1] != "--stdio" {
		t.Errorf("an absent program: %v", s)
	}
	if s := of("rust"); s.GetInstall() != "rustup component add rust-analyzer" || s.GetCommand()[0] != "rust-analyzer" {
		t.Errorf("a built-in language: %v", s)
	}
}
