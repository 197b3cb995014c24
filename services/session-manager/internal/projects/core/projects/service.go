package projects

import (
	"context"
	"log/slog"

	"kaged.dev/pkg/catalogue"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/page"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/operators/core/localconfig"
)

// Workspace reads and writes projects' files and lists the tools in the workspace.
type Workspace interface {
	// ReadProject returns present files of the project in root, in the order of paths; paths are relative to root with
	// forward slashes. A file with a known SHA-256 (hex) is returned as [Unchanged], without its content. It fails with
	// not_found if root is not a folder.
	ReadProject(ctx context.Context, workspace, root string, paths []string, known map[string]string) (Folder, error)
	// WriteProject replaces or creates a file of the project in root, and returns the SHA-256 (hex) of its content. was is
	// the hash of the file to replace, "" if there is no file yet. It fails with file_changed_since_read if the file has a
	// different hash, and with file_busy.
	WriteProject(ctx context.Context, workspace, root, path string, content []byte, was string) (sha256 string, err error)
	// ListFolder returns at most limit entries of a folder of the project in root, with names after the name after, in
	// order, and whether there are more. It fails with file_not_found and invalid_params.
	ListFolder(ctx context.Context, workspace, root, path, after string, limit int) ([]Entry, bool, error)
	// ReadFile passes a file of the project in root to take in pieces; the first may be empty. It fails with
	// file_not_found, file_not_regular, invalid_params and capability_denied, and with the errors of take.
	ReadFile(
		ctx context.Context, workspace, root, path string, take func(size, modifiedAt int64, data []byte) error,
	) error
	// Catalogue returns the tools of a workspace.
	Catalogue(ctx context.Context, workspace string) (catalogue.Tools, error)
	// LanguageServers returns the language servers of a project in a folder, or of all projects if both are empty.
	LanguageServers(ctx context.Context, workspace, project, root string) ([]contract.RunningLanguageServer, error)
	// StopLanguageServers ends the language servers of a project in a folder, of one language or, for "", of all, and
	// returns them.
	StopLanguageServers(
		ctx context.Context, workspace, project, root, lang string,
	) ([]contract.RunningLanguageServer, error)
}

// Folder is a project that was read.
type Folder struct {
	// Root is the project's folder with all links resolved.
	Root  string
	Files []File
}

// FileState is the result of reading one file.
type FileState int

// The states of a file.
const (
	// Missing: the file does not exist.
	Missing FileState = iota
	// Found: Content has the file's content.
	Found
	// Unchanged: the caller already has its content.
	Unchanged
	// Refused: the file exists but cannot be used; Reason has the cause.
	Refused
)

// File is a project's file that was read.
type File struct {
	Path    string
	State   FileState
	Content []byte
	// SHA256 is the hash of its content in hex, if it was found or is unchanged.
	SHA256 string
	Reason string
}

// CompileOutput is a snapshot, or the missing files for one.
type CompileOutput struct {
	// Snapshot is nil while there are errors or wanted files. Its outline is complete.
	Snapshot *Snapshot
	// ID, Description and Version are those of the project file; they are set only with a snapshot.
	ID, Description string
	Version         int
	Diagnostics     []Diagnostic
	// Wanted are the files that the next call needs.
	Wanted []string
	// Aliases and Prompts are those in use, in the order of their names.
	Aliases, Prompts []Reference
}

// Places has the workspaces of operators.
type Places interface {
	// Take returns the workspace of an operator, and assigns a free one to an operator without; "" is the default one. It
	// fails with unavailable if none is free.
	Take(ctx context.Context, operator string) (string, error)
}

// Registry stores the registered projects.
type Registry interface {
	// Find returns a project with the number of its sessions. It fails with not_found.
	Find(ctx context.Context, owner, id string) (Project, error)
	// Row returns a project without the number of its sessions. Counting them takes longer the more sessions there are.
	Row(ctx context.Context, owner, id string) (Project, error)
	// Known fails with not_found for an unknown project.
	Known(ctx context.Context, owner, id string) error
	// FindByPath returns the project registered from a folder, or nil.
	FindByPath(ctx context.Context, owner, path string) (*Project, error)
	// List returns up to limit projects of owner by id, after the id after.
	List(ctx context.Context, owner, after string, limit int) ([]Project, error)
	// Save registers p, or replaces the results of its compilation, evaluation and approval, with its snapshot, which may
	// be nil, and their records; label, registered_at and last_opened_at of a registered project stay. It returns the
	// stored p and whether it was not registered before. It fails with [ErrOvertaken] if the approved version is not was,
	// and with conflict if the id belongs to another folder (details existing_path, incoming_id) or the folder to another
	// id (details existing_id, incoming_id, path).
	Save(
		ctx context.Context, p Project, was string, snapshot *Snapshot, records func(created bool) []audit.Record,
	) (Project, bool, error)
	// Invalidate marks a registered project as invalid, and appends the record of this.
	Invalidate(ctx context.Context, owner, id string, diagnostics []Diagnostic, now int64, record audit.Record) error
	// Evaluated stores p's state and its unresolved parts, unless the project was saved meanwhile.
	Evaluated(ctx context.Context, p Project) error
	// SetLabel changes the operator's name of a project, nil for no label, and appends the record of this. It fails with
	// not_found.
	SetLabel(ctx context.Context, owner, id string, label *string, record audit.Record) error
	// Opened records the time of the last use of a session of the project.
	Opened(ctx context.Context, owner, id string, now int64) error
}

// Approvals stores the approved versions of projects.
type Approvals interface {
	// Upgrade stores the approval of a project without one, with its record. It has no effect on an approved project.
	Upgrade(ctx context.Context, p Project, record audit.Record) error
	// Accepted returns the approved hash, the compiled hash and the accepted prompts of a project. It fails with
	// not_found.
	Accepted(ctx context.Context, owner, id string) (Accepted, error)
	// Approved returns the approved versions of all owners' projects of a workspace.
	Approved(ctx context.Context, workspace string) ([]ApprovedVersion, error)
	// Record appends a record.
	Record(ctx context.Context, record audit.Record) error
}

// Contents stores snapshots and prompts by their hashes.
type Contents interface {
	// Snapshot returns a snapshot's encoding. It fails with not_found.
	Snapshot(ctx context.Context, hash string) ([]byte, error)
	// PutPrompts stores prompts' texts by their SHA-256 (hex).
	PutPrompts(ctx context.Context, texts map[string]string, now int64) error
	// PromptTexts returns the stored texts of prompts by their SHA-256 (hex).
	PromptTexts(ctx context.Context, hashes []string) (map[string]string, error)
}

// ApprovedVersion is the approved version of a project.
type ApprovedVersion struct {
	// Root is the project's folder.
	Root, CompiledHash string
	Sources            []dsl.File
}

// Accepted is the part of a project's approval that a run needs.
type Accepted struct {
	ApprovedHash, CompiledHash string
	// Prompts are the SHA-256 (hex) of the accepted texts, by path.
	Prompts map[string]string
}

// Deps are a Service's dependencies.
type Deps struct {
	Registry  Registry
	Approvals Approvals
	Contents  Contents
	History   History
	Config    localconfig.Source
	Workspace Workspace
	// Places has the workspaces of operators.
	Places Places
	// Root is the folder that must contain all projects of a workspace, "" for no restriction.
	Root string
	Log  *slog.Logger
	// Build is kaged's version with its commit. A snapshot of another build is compiled again, because its tools may
	// differ.
	Build  string
	Bounds Bounds
}

// Bounds limit a project.
type Bounds struct {
	// Prompts is the maximum total size of the prompts of a project, in bytes, because one message has all prompts of a
	// run.
	Prompts int
	// Files is the maximum number of files from which a project is compiled.
	Files int
	// PromptCache is the maximum size of the prompts in memory, in bytes.
	PromptCache int
}

// Service is the registry. It is safe for concurrent use. Goroutines that it starts end with the call that started
// them.
type Service struct {
	Deps
	snapshots *cache[string, *Snapshot]
	prompts   *promptCache
	opened    *cache[string, int64]
}

// The sizes of caches; their entries can be read again from the store or the files.
const (
	cachedSnapshots = 256
	cachedProjects  = 4096
)

// New returns a Service.
func New(deps Deps) *Service {
	return &Service{
		Deps:      deps,
		snapshots: newCache[string, *Snapshot](cachedSnapshots),
		prompts:   newPromptCache(deps.Bounds.PromptCache),
		opened:    newCache[string, int64](cachedProjects),
	}
}

// list is the name of the registry's pages.
const list = "projects"

func pageKey(p Project) page.Key { return page.Key{S: p.ID} }
