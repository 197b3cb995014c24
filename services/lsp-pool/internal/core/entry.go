package core

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// Entry is a language server in the catalogue.
type Entry struct {
	// Lang is the language's name for projects and operators.
	Lang string
	// Extensions are the file name extensions of the language, each with the protocol's name of the language.
	Extensions map[string]string
	// Commands are tried in their order; the first one with an installed program and a successful handshake is used.
	Commands [][]string
	// Markers are the names of files in the folder of a program in this language. A built-in server is started in the
	// nearest such folder around the first file it is asked about, other servers in the project's root.
	Markers []string
	// Install is the command that installs the program of the first command.
	Install string
	// Settings are sent with initialize, and returned when the server asks for its configuration.
	Settings map[string]any
	// Pulls is true if the first command's server answers requests for diagnostics without announcing it.
	Pulls bool
	// Versions is true if the first command's server publishes diagnostics with the versions of open files.
	Versions bool
	// Status is true if the first command's server reports by experimental/serverStatus when it has loaded.
	Status bool
	// Asks is true if the first command's server requests its settings, so that they are not sent unasked.
	Asks bool
	// Env names further variables of kaged's own environment for the server.
	Env []string
	// Vars are further variables for the server. Read are paths outside the project that its cage may read.
	Vars map[string]string
	Read []string
	// Checker is the program that finds the errors of files for the server, "" if the server does so itself.
	Checker string
	// Lists is the expression of the log message with which the server says that it has the list of the project's files.
	Lists string
	// Late is true if the server watches files itself and notices changes late, so that files are opened when they appear
	// or change.
	Late bool
	// Parallel is the maximum number of simultaneous requests to the server, 0 for the configured number.
	Parallel int
	// Memory is the memory limit of its cage in bytes, 0 for the configured limit.
	Memory int64

	text string // the entry as JSON, "" if it is not known
}

// identity returns a text that is equal for equal entries.
func (e Entry) identity() string {
	if e.text != "" {
		return e.text
	}
	text, _ := json.Marshal(e) // plain values can be encoded as JSON
	return string(text)
}

// Builtin returns the servers that work if their program is installed.
func Builtin() []Entry {
	node, validating := []string{"NODE_OPTIONS"}, map[string]any{"validate": true}
	return []Entry{
		{
			Lang: "go", Extensions: map[string]string{".go": "go"},
			Commands: [][]string{{"gopls"}}, Install: "go install golang.org/x/tools/gopls@latest",
			Markers: []string{"go.work", "go.mod"},
			// Unasked settings make the server request them twice more before its first answer.
			Asks: true,
			// The server offers fixes for published diagnostics. It publishes some versions twice, the first time without all
			// errors, so for other purposes diagnostics are pulled.
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
			Markers: []string{"tsconfig.json", "jsconfig.json", "package.json"},
			// Otherwise the server would install packages with the types of the packages that a project names, and answer
			// from open files alone while it loads the project.
			Settings: map[string]any{
				"disableAutomaticTypingAcquisition": true, "tsserver": map[string]any{"useSyntaxServer": "never"},
			},
			Late: true,
		},
		{
			Lang: "python", Extensions: map[string]string{".py": "python", ".pyi": "python"},
			Commands: [][]string{{"pyright-langserver", "--stdio"}}, Install: "npm install -g pyright",
			Env:     append([]string{"VIRTUAL_ENV", "PYTHONPATH"}, node...),
			Markers: []string{"pyproject.toml", "pyrightconfig.json", "setup.py", "setup.cfg"},
			// Until it has the list of files, references are those in open files. Each search for them ends the search before.
			Lists: `^(Found \d+ source files?|No source files found)`, Late: true, Parallel: 1,
		},
		{
			Lang: "rust", Extensions: map[string]string{".rs": "rust"}, Commands: [][]string{{"rust-analyzer"}},
			Install: "rustup component add rust-analyzer", Env: []string{"CARGO_HOME", "RUSTUP_HOME", "RUSTFLAGS"},
			Markers: []string{"Cargo.toml"}, Status: true,
			// The errors of cargo check would stay after later changes of a file, until the next check.
			Settings: map[string]any{"checkOnSave": false, "cachePriming": map[string]any{"enable": false}},
		},
		{
			Lang: "cpp", Extensions: map[string]string{
				".c": "c", ".h": "cpp", ".cc": "cpp", ".cpp": "cpp", ".cxx": "cpp", ".hpp": "cpp", ".hh": "cpp", ".hxx": "cpp",
				".m": "objective-c",
			},
			Commands: [][]string{{"clangd"}, {"clangd-19"}}, Install: "apt-get install clangd", Versions: true,
			Markers: []string{"compile_commands.json", "compile_flags.txt", ".clangd"},
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
			// Without settings for a language the server finds no errors.
			Settings: map[string]any{"css": validating, "scss": validating, "less": validating},
		},
		{
			Lang: "yaml", Extensions: map[string]string{".yaml": "yaml", ".yml": "yaml"},
			Commands: [][]string{{"yaml-language-server", "--stdio"}}, Install: "npm install -g yaml-language-server", Env: node,
		},
	}
}

// Override is an operator's configuration of the server of a language.
type Override struct {
	Command    []string
	Extensions []string
	Settings   map[string]any
	Env        map[string]string
	Read       []string
	Memory     int64
}

// With returns the catalogue with the operator's entries in place of the built-in entries of their languages. A
// language that only the operator defines has the extensions of the override.
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
			e.Commands, e.Pulls, e.Versions, e.Status, e.Markers = [][]string{o.Command}, false, false, false, nil
			e.Asks, e.Lists = false, ""
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
