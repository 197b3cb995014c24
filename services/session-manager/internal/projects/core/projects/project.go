package projects

import (
	"bytes"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/operators/core/localconfig"
	"kaged.dev/services/session-manager/internal/projects/core/approval"
)

// State determines whether work can start.
type State string

// The states.
const (
	// Ready: all references are resolved.
	Ready State = "ready"
	// Pending: the project file is valid and refers to a missing part.
	Pending State = "pending"
	// Invalid: the project file does not compile.
	Invalid State = "invalid"
)

// Project is a registered project.
type Project struct {
	// Owner is the operator who has registered it.
	Owner string
	// ID is the slug; it never changes.
	ID string
	// Path is the folder, absolute, with all links resolved.
	Path        string
	Label       *string
	Description string
	DSLVersion  int
	// State and Unresolved are the results of the last evaluation.
	State      State
	Unresolved Unresolved
	// Diagnostics are the errors and warnings of the last compilation, Warnings only the warnings, as sentences.
	Diagnostics []Diagnostic
	Warnings    []string
	// Aliases and Prompts are the model aliases and prompts in use.
	Aliases, Prompts []Reference
	// CompiledHash identifies the last snapshot that compiled.
	CompiledHash string
	// Sources are the files from which it was compiled: those of the approved version.
	Sources []dsl.File
	// ApprovedHash identifies the approved version, "" before the first approval; ApprovedAt and ApprovedBy are the time
	// and origin of the approval: [ByOperator], [ByFirstLoad] or [ByUpgrade].
	ApprovedHash, ApprovedBy string
	ApprovedAt               int64
	// AcceptedPrompts are the SHA-256 (hex) of the accepted texts of prompts, by path.
	AcceptedPrompts map[string]string
	// RulesHash identifies the operator's rules and the kaged version of the last compilation.
	RulesHash string
	// Workspace is the name of the workspace with its files, "" in a deployment with only one.
	Workspace string
	// Times are milliseconds since the Unix epoch.
	RegisteredAt, UpdatedAt int64
	LastOpenedAt            *int64
	SessionCount            int
}

// Reference is a name that a project uses: a model alias, or a prompt's path relative to the project's root.
type Reference struct {
	Name string `json:"name"`
	// UsedBy are the tree paths of the agents that use it.
	UsedBy []string `json:"used_by"`
	// SHA256 is a prompt's hash at its last read, in hex; empty if it was missing.
	SHA256 string `json:"sha256,omitempty"`
	// Writable is true if agents can write a prompt: then its accepted text is used, not the file.
	Writable bool `json:"writable,omitempty"`
}

// Unresolved are the missing parts of a pending project.
type Unresolved struct {
	Aliases []Reference `json:"aliases,omitempty"`
	Prompts []Reference `json:"prompts,omitempty"`
}

// Empty reports whether all parts exist.
func (u Unresolved) Empty() bool { return len(u.Aliases) == 0 && len(u.Prompts) == 0 }

// details returns u in the form of the API.
func (u Unresolved) details() map[string]any {
	list := func(refs []Reference, key string) []any {
		out := []any{}
		for _, r := range refs {
			users := []any{}
			for _, by := range r.UsedBy {
				users = append(users, by)
			}
			out = append(out, map[string]any{key: r.Name, "used_by": users})
		}
		return out
	}
	return map[string]any{"aliases": list(u.Aliases, "name"), "plugins": []any{}, "prompts": list(u.Prompts, "path")}
}

// Diagnostic is an error or a warning about a project's files.
type Diagnostic struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
	// Path is the tree path, such as primary.subagents.scraper.model.
	Path string `json:"path,omitempty"`
	// File is relative to the project's root.
	File string `json:"file,omitempty"`
	// Line and Column are from 1, or 0 if it is about a whole file.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// Warning marks a diagnostic that does not make the project invalid.
	Warning bool `json:"warning,omitempty"`
}

// Snapshot is a compiled project. It never changes, and its hash identifies it.
type Snapshot struct {
	// Hash is the SHA-256 of Compiled in hex.
	Hash string
	// Compiled is the encoding of kaged.harness.v1.CompiledProject.
	Compiled []byte
	Outline
}

// Outline is the registry's view of a snapshot.
type Outline struct {
	// RootModel is the alias of the root agent.
	RootModel string
	// ResumeOnCrash is true if a new run continues one that a crash interrupted.
	ResumeOnCrash bool
	// Agents are all agents, the root first.
	Agents []approval.Agent
	// Strategies are the strategies of compactions in the configuration of agents, by their tree paths.
	Strategies map[string]string
	// LanguageServers are the servers that the project declares, by language.
	LanguageServers []dsl.LanguageServer
	// Debugging has the project's settings for debuggers.
	Debugging dsl.Debugging
	// Caged is true if the root agent has a cage.
	Caged bool
	// Capabilities are the rights of the root agent and the cages of all agents.
	Capabilities Capabilities
	// Aliases and Prompts are the model aliases and prompts in use.
	Aliases, Prompts []Reference
}

// Capabilities are the rights of a project's root agent, and the cages of all its agents. Lists are in the order of
// the project file and of the catalogue.
type Capabilities struct {
	// Mounts are the paths that its cage grants, Net the "host:port" pairs that it may reach; both are empty without a
	// cage.
	Mounts, Net []string
	// Tools are the tools that it has, ToolsOff the rest of the catalogue.
	Tools, ToolsOff []string
	// Agents are all agents of the project, parents before children.
	Agents []AgentCage
}

// AgentCage is an agent's cage. Summary has the grants in the words of the project file.
type AgentCage struct {
	Path    string
	Caged   bool
	Summary string
}

// NotFound is the error for a project that the caller cannot see.
func NotFound(id string) *fault.Error {
	return fault.New(fault.NotFound, "There is no project %q.", id)
}

// notReady is the error with the first missing part if work cannot start.
func notReady(state State, missing Unresolved) *fault.Error {
	sentence := "The project's file does not compile; correct it and reload the project."
	switch {
	case state == Invalid:
		missing = Unresolved{}
	case len(missing.Aliases) > 0:
		sentence = "Model alias '" + missing.Aliases[0].Name + "' not found in local config."
	case len(missing.Prompts) > 0:
		sentence = "Prompt file not found: ./" + missing.Prompts[0].Name + "."
	}
	return fault.New(fault.ProjectNotReady, "%s", sentence).
		With("reason", "project_not_ready").With("state", string(state)).With("unresolved", missing.details())
}

// unapproved is the error before the project's first approval.
func unapproved() *fault.Error {
	return fault.New(fault.ProjectNotReady, "The project's files have not been approved yet; `kaged project approve` "+
		"shows and approves them.").
		With("reason", "project_not_ready").With("state", string(Pending)).With("unresolved", Unresolved{}.details())
}

// dslInvalid returns an error with every error among diagnostics.
func dslInvalid(diagnostics []Diagnostic) *fault.Error {
	errors := []any{}
	for _, d := range diagnostics {
		if d.Warning {
			continue
		}
		errors = append(errors, map[string]any{
			"path": d.Path, "line": d.Line, "column": d.Column, "reason": d.Message, "file": d.File, "kind": d.Kind,
		})
	}
	return fault.New(fault.DSLInvalid, "The project file does not compile: %s", firstError(diagnostics)).
		With("errors", errors)
}

func firstError(diagnostics []Diagnostic) string {
	for _, d := range diagnostics {
		if !d.Warning {
			return d.Message
		}
	}
	return "it has errors."
}

// warnings returns the sentences of the warnings.
func warnings(diagnostics []Diagnostic) []string {
	out := []string{}
	for _, d := range diagnostics {
		if d.Warning {
			out = append(out, prefix(d.Path)+d.Message)
		}
	}
	return out
}

// withConfig returns p with the warnings about the operator's configuration.
func (p Project) withConfig(cfg *localconfig.Config) Project {
	if cfg == nil {
		return p
	}
	p.Diagnostics, p.Warnings = slices.Clone(p.Diagnostics), slices.Clone(p.Warnings)
	for _, d := range cfg.Dormant() {
		p.Diagnostics = append(p.Diagnostics, Diagnostic{
			Kind: string(dsl.NotInForce), Message: d.Message, Path: d.Key, File: "local.toml", Warning: true,
		})
		p.Warnings = append(p.Warnings, "local.toml: "+d.Message)
	}
	return p
}

func prefix(tree string) string {
	if tree == "" {
		return ""
	}
	return tree + ": "
}

// maxPath is the maximum length of a folder's path in bytes: PATH_MAX of Linux.
const maxPath = 4096

// folder returns the folder in a request. With a projects root, the name may be relative to it, and a folder outside it
// fails with not_found, like a missing one. The workspace checks again with links resolved.
func (s *Service) folder(name string) (string, error) {
	if s.Root == "" {
		return cleanPath(name)
	}
	if name != "" && !path.IsAbs(name) {
		name = s.Root + "/" + name
	}
	folder, err := cleanPath(name)
	if err == nil && !strings.HasPrefix(folder, s.Root+"/") {
		err = noProject(folder).With("missing", "folder")
	}
	return folder, err
}

// cleanPath checks a request's folder and returns its clean path. The workspace resolves links later.
func cleanPath(p string) (string, error) {
	switch {
	case p == "":
		return "", check.Field("path", "path must name the project's folder.")
	case !path.IsAbs(p):
		return "", check.Field("path", "path must be absolute.")
	case len(p) > maxPath:
		return "", check.Field("path", "path must have at most %d bytes.", maxPath)
	}
	if err := check.Text("path", p, 0); err != nil {
		return "", err
	}
	return path.Clean(p), nil
}

// isText reports whether a prompt's bytes can be stored and sent as text.
func isText(content []byte) bool {
	return utf8.Valid(content) && bytes.IndexByte(content, 0) < 0
}
