package core

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// Entry is a language server as the catalogue holds it.
type Entry struct {
	// Lang is the language, by which projects and operators name it.
	Lang string
	// Extensions are those of its files, with the protocol's name of their language.
	Extensions map[string]string
	// Commands are tried in their order; the first with an installed program whose handshake succeeds is used.
	Commands [][]string
	// Install is the command that installs the first of them.
	Install string
	// Settings go out with initialize and answer questions about the configuration.
	Settings map[string]any
	// Pulls says that the first command's server answers when it is asked for diagnostics, although it does not say so.
	Pulls bool
	// Versions says that the first command's publications name the versions of open files.
	Versions bool
	// Env names variables of kaged's own that the server gets besides the usual ones.
	Env []string
	// Vars are variables of its own, Read are paths outside the project that its cage may read.
	Vars map[string]string
	Read []string
	// Checker is the program that finds the errors of files for it, "" where the server does.
	Checker string
	// Memory bounds its cage in bytes, 0 for the configured bound.
	Memory int64
}

// Builtin are the servers that work where their program is found.
func Builtin() []Entry {
	node, validating := []string{"NODE_OPTIONS"}, map[string]any{"validate": true}
	return []Entry{
		{
			Lang: "go", Extensions: map[string]string{".go": "go"},
			Commands: [][]string{{"gopls"}}, Install: "go install golang.org/x/tools/gopls@latest",
			// Published diagnostics lead to fixes. They come twice for some versions, at first without all errors, so that
			// others than for fixes are pulled.
			Settings: map[string]any{"diagnosticsDelay": "0s"}, Pulls: true, Versions: true,
			Env: []string{
				"GOPATH", "GOFLAGS", "GOPROXY", "GOSUMDB", "GOPRIVATE", "GOTOOLCHAIN", "GOROOT", "GOMODCACHE",
				"GOCACHE", "CGO_ENABLED",
			},
		},
		{
			Lang: "typescript", Extensions: map[string]string{
				".ts": "typescript", ".mts": "typescript", ".cts": "typescript", ".tsx": "typescriptreact",
				".js": "javascript", ".mjs": "javascript", ".cjs": "javascript", ".jsx": "javascriptreact",
			},
			Commands: [][]string{{"typescript-language-server", "--stdio"}, {"tsc", "--lsp", "--stdio"}},
			Install:  "npm install -g typescript-language-server typescript", Env: node,
			// It would install packages with the types of those that a project names.
			Settings: map[string]any{"disableAutomaticTypingAcquisition": true},
		},
		{
			Lang: "python", Extensions: map[string]string{".py": "python", ".pyi": "python"},
			Commands: [][]string{{"pyright-langserver", "--stdio"}}, Install: "npm install -g pyright",
			Env: append([]string{"VIRTUAL_ENV", "PYTHONPATH"}, node...),
		},
		{
			Lang: "rust", Extensions: map[string]string{".rs": "rust"}, Commands: [][]string{{"rust-analyzer"}},
			Install: "rustup component add rust-analyzer", Env: []string{"CARGO_HOME", "RUSTUP_HOME", "RUSTFLAGS"},
		},
		{
			Lang: "cpp", Extensions: map[string]string{
				".c": "c", ".h": "cpp", ".cc": "cpp", ".cpp": "cpp", ".cxx": "cpp", ".hpp": "cpp", ".hh": "cpp", ".hxx": "cpp",
				".m": "objective-c",
			},
			Commands: [][]string{{"clangd"}, {"clangd-19"}}, Install: "apt-get install clangd", Versions: true,
		},
		{
			Lang: "bash", Extensions: map[string]string{".sh": "shellscript", ".bash": "shellscript"},
			Commands: [][]string{{"bash-language-server", "start"}}, Install: "npm install -g bash-language-server", Env: node,
			Checker: "shellcheck",
		},
		{
			Lang: "json", Extensions: map[string]string{".json": "json", ".jsonc": "jsonc"},
			Commands: [][]string{{"vscode-json-language-server", "--stdio"}},
			Install:  "npm install -g vscode-langservers-extracted", Env: node,
		},
		{
			Lang: "html", Extensions: map[string]string{".html": "html", ".htm": "html"},
			Commands: [][]string{{"vscode-html-language-server", "--stdio"}},
			Install:  "npm install -g vscode-langservers-extracted", Env: node,
		},
		{
			Lang: "css", Extensions: map[string]string{".css": "css", ".scss": "scss", ".less": "less"},
			Commands: [][]string{{"vscode-css-language-server", "--stdio"}},
			Install:  "npm install -g vscode-langservers-extracted", Env: node,
			// Without settings of a language it finds no errors.
			Settings: map[string]any{"css": validating, "scss": validating, "less": validating},
		},
		{
			Lang: "yaml", Extensions: map[string]string{".yaml": "yaml", ".yml": "yaml"},
			Commands: [][]string{{"yaml-language-server", "--stdio"}}, Install: "npm install -g yaml-language-server", Env: node,
		},
	}
}

// Override is an operator's choice of the server of a language.
type Override struct {
	Command    []string
	Extensions []string
	Settings   map[string]any
	Env        map[string]string
	Read       []string
	Memory     int64
}

// With returns the catalogue with the operator's entries in place of those of their languages. A language of the
// operator's own has the extensions that he names.
func With(list []Entry, overrides map[string]Override) []Entry {
	list = slices.Clone(list)
	for _, lang := range slices.Sorted(maps.Keys(overrides)) {
		o := overrides[lang]
		i := slices.IndexFunc(list, func(e Entry) bool { return e.Lang == lang })
		if i < 0 {
			list = append(list, Entry{Lang: lang, Extensions: map[string]string{}, Install: "see [lsp.servers." + lang +
				"] in local.toml, which names it"})
			i = len(list) - 1
		}
		e := &list[i]
		if len(o.Command) > 0 {
			e.Commands, e.Pulls, e.Versions = [][]string{o.Command}, false, false
		}
		if len(o.Extensions) > 0 {
			e.Extensions = map[string]string{}
			for _, ext := range o.Extensions {
				e.Extensions["."+strings.TrimPrefix(strings.ToLower(ext), ".")] = lang
			}
		}
		if o.Settings != nil {
			e.Settings = o.Settings
		}
		e.Vars, e.Read = o.Env, o.Read
		if o.Memory > 0 {
			e.Memory = o.Memory
		}
	}
	return list
}

// language returns the protocol's name of a file's language.
func (e Entry) language(path string) string {
	if name := e.Extensions[strings.ToLower(filepath.Ext(path))]; name != "" {
		return name
	}
	return e.Lang
}
