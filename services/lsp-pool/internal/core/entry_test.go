package core_test

import (
	"slices"
	"strings"
	"testing"

	"kaged.dev/services/lsp-pool/internal/core"
)

// T-LSP-CFG-04..07, T-LSP-LIFE-14, T-LSP-DIAG-03: the extension of a file determines the language, and each built-in
// language has its command without configuration.
func TestBuiltinCommands(t *testing.T) {
	t.Parallel()
	entries := core.Builtin()
	for extension, command := range map[string]string{
		".ts": "typescript-language-server --stdio", ".js": "typescript-language-server --stdio",
		".py": "pyright-langserver --stdio", ".rs": "rust-analyzer", ".go": "gopls", ".cpp": "clangd",
	} {
		var found []string
		for _, e := range entries {
			if e.Extensions[extension] != "" {
				found = append(found, strings.Join(e.Commands[0], " "))
			}
		}
		if !slices.Equal(found, []string{command}) {
			t.Errorf("%s has %q, want %q", extension, found, command)
		}
	}
}
