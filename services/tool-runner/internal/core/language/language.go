// Package language is the tool code.lsp's view of language servers. Lines and characters count from 0 here, the
// latter in UTF-16; paths are absolute.
package language

import (
	"context"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
)

// Action is one of the tool's actions.
type Action string

// The actions that are questions to a server.
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
	// WarmDiagnostics are the diagnostics of files whose server runs already.
	WarmDiagnostics Action = "warm_diagnostics"
)

// Query is one question.
type Query struct {
	ProjectID, Root, SessionID string
	// Cage is the caller's, or nil; NoCommands says that the caller cannot run commands, ProjectCaged that an agent
	// of the project has a cage.
	Cage                     *dsl.Cage
	NoCommands, ProjectCaged bool
	// Declared are the servers that the project declares.
	Declared []dsl.LanguageServer

	Action Action
	Path   string
	At     Place
	Lang   string
	// IncludeDeclaration is of references, IncludeDiagnostics of code_actions.
	IncludeDeclaration, IncludeDiagnostics bool
	// Search is the name that symbols of the project are looked for by, "" for those of the file; Limit bounds them.
	Search string
	Limit  int
	// NewName is the new name of rename, or the new path of rename_file.
	NewName string
	// Method and Params are of request; Params is JSON.
	Method, Params string
	// Severity is the least grave that is wanted, from 1 to 4, 0 for all. Files are those that diagnostics are wanted of.
	Severity int
	Files    []string
	// WaitMS and TimeoutMS are 0 for the configured times.
	WaitMS, TimeoutMS int64
}

// Place is a place in a text.
type Place struct{ Line, Character int }

// Location is a place in a file.
type Location struct {
	Path       string
	Start, End Place
}

// Completeness says how far an answer can be relied on.
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
	// Hover is nil for a place without a symbol.
	Hover   *About
	Edits   []FileEdit
	Actions []CodeAction
	JSON    string
	Records []contract.Record
}

// Symbol is a named thing.
type Symbol struct {
	Name, Kind, Container string
	At                    Location
}

// Diagnostic is a complaint of a server.
type Diagnostic struct {
	At                    Location
	Severity              int
	Message, Code, Source string
}

// About is a server's text about a symbol.
type About struct {
	Content, Documentation string
	// At is nil for unknown.
	At *Location
}

// FileEdit is a rename's change of one file.
type FileEdit struct {
	Path, MovedTo string
	// SHA256 is that of the content the edit is meant for, in hex, "" for a new file.
	SHA256 string
	// Content is the new content, nil for a file that is only moved or removed.
	Content []byte
	Removed bool
	Edits   int
}

// CodeAction is a fix or a refactoring.
type CodeAction struct {
	Title, Kind string
	Preferred   bool
	Edits       []Replacement
}

// Replacement is one edit as text that is replaced.
type Replacement struct {
	Path     string
	Line     int
	Old, New string
}

// Servers asks language servers. It is safe for concurrent use. Its methods fail with unavailable if the pool cannot be
// asked.
type Servers interface {
	// Ask asks the server of a file's language, which is started if it is stopped. It fails with the codes of
	// LSPPoolService.Query.
	Ask(ctx context.Context, q Query) (Answer, error)
	// List returns the servers that are selected.
	List(ctx context.Context, which Filter) ([]contract.RunningLanguageServer, error)
	// Stop ends the servers that are selected, and returns them.
	Stop(ctx context.Context, which Filter) ([]contract.RunningLanguageServer, error)
	// Unload ends and forgets the servers of a project in a folder, and returns the records that no answer has carried.
	Unload(ctx context.Context, project, root string) ([]contract.RunningLanguageServer, []contract.Record, error)
	// End ends all servers after the processes that needed them have ended.
	End(ctx context.Context) error
}

// Filter selects language servers; an empty field selects all.
type Filter struct {
	ProjectID, Root, Lang string
	// Caller selects the servers that answer its questions.
	Caller *Query
}
