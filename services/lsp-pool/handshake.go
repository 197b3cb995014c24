package lsppool

import (
	"encoding/json"
	"slices"

	"kaged.dev/services/lsp-pool/internal/core"
	"kaged.dev/services/lsp-pool/internal/lsp"
)

// Handshake returns the capabilities and settings that the built-in server of a language is started with, for
// measurements beside a bare client.
func Handshake(lang string) (capabilities json.RawMessage, settings map[string]any) {
	list := core.Builtin()
	if i := slices.IndexFunc(list, func(e core.Entry) bool { return e.Lang == lang }); i >= 0 {
		settings = list[i].Settings
	}
	return lsp.ClientCapabilities, settings
}
