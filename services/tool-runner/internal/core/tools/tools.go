// Package tools is the catalogue: one file per tool, beside it in Markdown the model's description
// of it.
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
	// Images keeps the content of files before their first change by a session; nil in tests.
	Images *changes.Images
	// Reads are the read records.
	Reads *reads.Records
	// Sniff names a file's content type by its first bytes.
	Sniff text.Sniffer
	// Commands runs commands, Processes those that outlive their call.
	Commands  sandbox.Runner
	Processes *processes.Table
	// Languages asks language servers.
	Languages language.Servers
	// Told remembers the errors that agents were told of after their edits.
	Told *language.Told
	// Tracker keeps issues; without it the tools that need it fail.
	Tracker tracker.Tracker
	// Notes finds passages in the memory of projects.
	Notes *memories.Shelf
	// Debuggers debug programs.
	Debuggers debugging.Debuggers
	// Parsers parse the sources of structural search and rewriting.
	Parsers *syntax.Parsers
	// LookupEnv reads kaged's own environment.
	LookupEnv func(string) (string, bool)
	// NoSandbox says that commands of caged agents run without their cage.
	NoSandbox bool
	// Limits bound the input and output of the tools.
	Limits Limits
}

// Limits are the bounds of the tools: sizes in bytes unless said otherwise. See DefaultConfig of the service for their
// values and reasons.
type Limits struct {
	// ReadBytes bounds one answer of file.read, LineRunes the characters shown of one line.
	ReadBytes, LineRunes int
	// PageBytes is the page of the alias read when the caller names no number of lines.
	PageBytes int
	// ListEntries bounds the entries of a folder that are shown.
	ListEntries int
	// ReadFile is the largest file that is read at all, EditFile the largest that is edited or shown in a diff.
	ReadFile int64
	EditFile int
	// DiffBytes bounds the diff an edit answers with.
	DiffBytes int
	// PatchFiles bounds the sections of a patch, PatchBytes the bytes read for all of them.
	PatchFiles int
	PatchBytes int64
	// Search bounds the searches, Shell the tools that run shell commands.
	Search SearchLimits
	Shell  ShellLimits
	// AfterEdit is how long a changed file's errors are waited for, 0 for never.
	AfterEdit time.Duration
	// IssueBytes bounds the updates of an issue that are shown.
	IssueBytes int
	// Syntax bounds search.ast and edit.ast.
	Syntax SyntaxLimits
	// Debug bounds debug.
	Debug DebugLimits
	// Memory bounds memory.search.
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
