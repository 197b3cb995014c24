// Package tools has the catalogue, with one file per tool and the tool's description for the model beside it in
// Markdown.
package tools

import (
	"time"

	"kaged.dev/pkg/sandbox"
	"kaged.dev/pkg/syntax"
	"kaged.dev/pkg/workspace/change"
	"kaged.dev/pkg/workspace/text"
	"kaged.dev/services/tool-runner/internal/core/changes"
	"kaged.dev/services/tool-runner/internal/core/debugging"
	"kaged.dev/services/tool-runner/internal/core/language"
	"kaged.dev/services/tool-runner/internal/core/memories"
	"kaged.dev/services/tool-runner/internal/core/processes"
	"kaged.dev/services/tool-runner/internal/core/reads"
	"kaged.dev/services/tool-runner/internal/core/tool"
	"kaged.dev/services/tool-runner/internal/core/tracker"
)

// Deps are the dependencies of the tools.
type Deps struct {
	// Files changes files.
	Files *change.Writer
	// Images stores the content of files before their first change by a session; nil in tests.
	Images *changes.Images
	// Reads are the read records.
	Reads *reads.Records
	// Sniff returns a file's content type by its first bytes.
	Sniff text.Sniffer
	// Commands runs commands, Processes the commands that outlive their calls.
	Commands  sandbox.Runner
	Processes *processes.Table
	// Languages sends queries to language servers.
	Languages language.Servers
	// Told has the errors that were already reported to agents after their edits.
	Told *language.Told
	// Tracker stores issues; without it the tools that need it fail.
	Tracker tracker.Tracker
	// Notes finds passages in the memory of projects.
	Notes *memories.Shelf
	// Debuggers debug programs.
	Debuggers debugging.Debuggers
	// Parsers parse the sources of structural search and rewriting.
	Parsers *syntax.Parsers
	// LookupEnv reads kaged's own environment.
	LookupEnv func(string) (string, bool)
	// NoSandbox is true if commands of caged agents run without their cage.
	NoSandbox bool
	// Limits are the limits of the tools' input and output.
	Limits Limits
}

// Limits are the limits of the tools; sizes are in bytes unless stated otherwise. DefaultConfig of the service has the
// values and their reasons.
type Limits struct {
	// ReadBytes is the maximum size of an answer of file.read, LineRunes the maximum number of characters of a shown line.
	ReadBytes, LineRunes int
	// PageBytes is the page size of the alias read if the caller gives no number of lines.
	PageBytes int
	// ListEntries is the maximum number of shown entries of a folder.
	ListEntries int
	// ReadFile is the maximum size of a file that can be read, EditFile of a file that can be edited or shown in a diff.
	ReadFile int64
	EditFile int
	// DiffBytes is the maximum size of the diff in the answer to an edit.
	DiffBytes int
	// PatchFiles is the maximum number of sections of a patch, PatchBytes the maximum number of bytes read for all
	// sections.
	PatchFiles int
	PatchBytes int64
	// Search are the limits of the searches, Shell those of the tools that run shell commands.
	Search SearchLimits
	Shell  ShellLimits
	// AfterEdit is the time to wait for the errors of a changed file; 0 means that no errors are requested.
	AfterEdit time.Duration
	// IssueBytes is the maximum size of the shown updates of an issue.
	IssueBytes int
	// Syntax are the limits of search.ast and edit.ast.
	Syntax SyntaxLimits
	// Debug are the limits of debug.
	Debug DebugLimits
	// Memory are the limits of memory.search.
	Memory MemoryLimits
}

// Catalogue returns the tools in canonical order.
func Catalogue(deps Deps) []*tool.Entry {
	return []*tool.Entry{
		fileRead(deps),
		fileList(deps),
		fileWrite(deps),
		fileCreate(deps),
		editText(deps),
		editAst(deps),
		editPatch(deps),
		searchGrep(deps),
		searchGlob(deps),
		searchAst(deps),
		codeLsp(deps),
		debug(deps),
		shellBash(deps),
		shellExec(deps),
		shellProcess(deps),
		kagedIssue(deps),
		kagedTodo(deps),
		kagedNote(deps),
		projectSkill(deps),
		memorySearch(deps),
		memoryGet(deps),
	}
}
