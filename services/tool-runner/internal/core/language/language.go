// Package language is the interface of the tool code.lsp to language servers. Lines and characters count from 0 here,
// characters in UTF-16; paths are absolute.
package language

import (
	"context"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
)

// Action is an action of the tool.
type Action string

// The actions that query a server.
const (
	Diagnostics    Action = "diagnostics"
	Definition     Action = "definition"
	References     Action = "references"
	Symbols        Action = "symbols"
	Rename         Action = "rename"
	RenameFile     Action = "rename_file"
	CodeActions    Action = "code_actions"
	Hover          Action = "hover"
	TypeDefinition Action = "type_definition"
	Implementation Action = "implementation"
	Capabilities   Action = "capabilities"
	Request        Action = "request"
	// WarmDiagnostics are the diagnostics of files with a server that is already running.
	WarmDiagnostics Action = "warm_diagnostics"
)

// Query is one question.
type Query struct {
	ProjectID, Root, SessionID string
	// Cage is the caller's, or nil; NoCommands means that the caller cannot run commands, ProjectCaged that an agent of
	// the project has a cage.
	Cage                     *dsl.Cage
	NoCommands, ProjectCaged bool
	// Declared are the servers that the project declares.
	Declared []dsl.LanguageServer

	Action Action
	Path   string
	At     Place
	Lang   string
	// IncludeDeclaration is for references, IncludeDiagnostics for code_actions.
	IncludeDeclaration, IncludeDiagnostics bool
	// Search is the name of the wanted symbols in the project, "" for those of the file; Limit limits them.
	Search string
	Limit  int
	// NewName is the new name of rename, or the new path of rename_file.
	NewName string
	// Method and Params are for request; Params is JSON.
	Method, Params string
	// Severity is the lowest wanted severity, from 1 to 4, 0 for all. Files are the files to return diagnostics for.
	Severity int
	Files    []string
	// WaitMS and TimeoutMS are 0 for the configured times.
	WaitMS, TimeoutMS int64
}

// Place is a position in a text.
type Place struct{ Line, Character int }

// Location is a position in a file.
type Location struct {
	Path       string
	Start, End Place
}

// Completeness describes how reliable an answer is.
type Completeness struct {
	State   string
	Percent int
	Reason  string
}

// Answer is the answer to a query.
type Answer struct {
	Completeness Completeness
	Locations    []Location
	Symbols      []Symbol
	Diagnostics  []Diagnostic
	// Hover is nil at a position without a symbol.
	Hover   *About
	Edits   []contract.FileEdit
	Actions []contract.CodeAction
	JSON    string
	Records []contract.Record
}

// Symbol is a named part of a program.
type Symbol struct {
	Name, Kind, Container string
	At                    Location
}

// Diagnostic is an error or warning of a server.
type Diagnostic struct {
	At                    Location
	Severity              int
	Message, Code, Source string
}

// About is a server's text about a symbol.
type About struct {
	Content, Documentation string
	// At is nil if it is unknown.
	At *Location
}

// Servers queries language servers. It is safe for concurrent use. Its methods fail with unavailable if the pool cannot
// be reached.
type Servers interface {
	// Ask queries the server of a file's language, and starts it if it is stopped. It fails with the codes of
	// LSPPoolService.Query.
	Ask(ctx context.Context, q Query) (Answer, error)
	// List returns the selected servers.
	List(ctx context.Context, which Filter) ([]contract.RunningLanguageServer, error)
	// Stop ends the selected servers, and returns them.
	Stop(ctx context.Context, which Filter) ([]contract.RunningLanguageServer, error)
	// Unload ends and forgets the servers of a project in a folder, and returns the records that no answer has included.
	Unload(ctx context.Context, project, root string) ([]contract.RunningLanguageServer, []contract.Record, error)
	// End ends all servers after the last stream that needs them has ended.
	End(ctx context.Context) error
}

// Filter selects language servers; an empty field selects all.
type Filter struct {
	ProjectID, Root, Lang string
	// Caller selects the servers that answer its queries.
	Caller *Query
}
