package projects_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"kaged.dev/pkg/catalogue"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/testkit/pgtest"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	auditstore "kaged.dev/services/session-manager/internal/audit/store"
	"kaged.dev/services/session-manager/internal/database/migrations"
	"kaged.dev/services/session-manager/internal/operators/core/localconfig"
	"kaged.dev/services/session-manager/internal/operators/core/workspaces"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
	"kaged.dev/services/session-manager/internal/projects/store"
)

// The limits of projects in these tests.
const (
	maxPrompts = 8 << 20
	maxFiles   = 64
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func hashOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// workspace reads real folders as tool-runner does, and has tools.
type workspace struct {
	mu    sync.Mutex // guards the fields below
	bytes int        // the number of bytes transferred
	err   error
	// asked is the number of requests for the catalogue, one per snapshot; toolsErr is their error.
	asked    int
	toolsErr error
	servers  []contract.RunningLanguageServer
	// beforeWrite is called before each write, if it is set.
	beforeWrite func()
}

func (w *workspace) Catalogue(context.Context, string) (catalogue.Tools, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	return catalogue.Tools{
		{Name: "file.read", DefaultRoot: true}, {Name: "file.write", Writes: true}, {Name: "shell.bash", Writes: true},
	}, w.toolsErr
}

// listed returns how often the catalogue was asked for.
func (w *workspace) LanguageServers(
	_ context.Context, _, project, root string,
) (list []contract.RunningLanguageServer, _ error) {
	for _, s := range w.servers {
		if project == "" || s.ProjectID == project && s.Root == root {
			list = append(list, s)
		}
	}
	return list, nil
}

func (w *workspace) StopLanguageServers(
	ctx context.Context, workspace, project, root, _ string,
) ([]contract.RunningLanguageServer, error) {
	return w.LanguageServers(ctx, workspace, project, root)
}

func (w *workspace) listed() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked
}

// loseTools makes requests for the catalogue fail with err, or succeed again for nil.
func (w *workspace) loseTools(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.toolsErr = err
}

func (w *workspace) ReadProject(
	_ context.Context, _, root string, paths []string, known map[string]string,
) (projects.Folder, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return projects.Folder{}, w.err
	}
	real, err := filepath.EvalSymlinks(root)
	if err != nil {
		return projects.Folder{}, fault.New(fault.NotFound, "%s is not a folder.", root)
	}
	folder := projects.Folder{Root: real}
	for _, p := range paths {
		f := projects.File{Path: p}
		info, err := os.Lstat(filepath.Join(real, p))
		switch {
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid):
		case err != nil || !info.Mode().IsRegular():
			f.State, f.Reason = projects.Refused, "not a regular file"
		default:
			content, err := os.ReadFile(filepath.Join(real, p))
			if err != nil {
				return projects.Folder{}, err
			}
			f.State, f.Content, f.SHA256 = projects.Found, content, hashOf(content)
			if known[p] == f.SHA256 {
				f.State, f.Content = projects.Unchanged, nil
			}
			w.bytes += len(f.Content)
		}
		folder.Files = append(folder.Files, f)
	}
	return folder, nil
}

func (w *workspace) ListFolder(
	_ context.Context, _, root, path, after string, limit int,
) (list []projects.Entry, more bool, _ error) {
	entries, err := os.ReadDir(filepath.Join(root, path))
	if err != nil {
		return nil, false, fault.New(fault.FileNotFound, "There is no file at %s.", path)
	}
	for _, e := range entries {
		if e.Name() > after {
			list = append(list, projects.Entry{Name: e.Name(), Kind: "file"})
		}
	}
	return list[:min(len(list), limit)], len(list) > limit, nil
}

func (w *workspace) ReadFile(
	_ context.Context, _, root, path string, take func(size, modifiedAt int64, data []byte) error,
) error {
	if strings.Contains(path, "..") {
		return fault.New(fault.InvalidParams, "The path %s leads outside the project.", path)
	}
	content, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		return fault.New(fault.FileNotFound, "There is no file at %s.", path)
	}
	return take(int64(len(content)), 7, content)
}

func (w *workspace) WriteProject(_ context.Context, _, root, path string, content []byte, was string) (string, error) {
	if w.beforeWrite != nil {
		w.beforeWrite()
	}
	now, err := os.ReadFile(filepath.Join(root, path))
	if sum := hashOf(now); err == nil && sum != was || err != nil && was != "" {
		return "", fault.New(fault.FileChangedSinceRead, "%s is another file.", path)
	}
	if err := os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o700); err != nil {
		return "", err
	}
	return hashOf(content), os.WriteFile(filepath.Join(root, path), content, 0o600)
}

func (w *workspace) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
}

func (w *workspace) transferred() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bytes
}

// fixture is a registry with its dependencies.
type fixture struct {
	*projects.Service
	t         *testing.T
	ctx       context.Context
	pool      *pgxpool.Pool
	workspace *workspace
	toml      string
}

const bound = "[models]\nfast = \"play:x\"\nslow = [\"play:y\", \"play:z\"]\n"

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{
		t: t, ctx: ident.WithCaller(t.Context(), ident.Caller{UserID: "ada", RequestID: "r1"}),
		pool:      pgtest.New(t, migrations.Files, migrations.Schema),
		workspace: &workspace{}, toml: filepath.Join(t.TempDir(), "local.toml"),
	}
	f.configure(bound)
	f.restart("1.0")
	return f
}

// restart replaces the registry by a new one with empty caches and another build of kaged.
func (f *fixture) restart(build string) {
	kept := store.NewProjects(f.pool)
	f.Service = projects.New(projects.Deps{
		Registry: kept, Approvals: kept, Contents: kept, History: kept,
		Config: localconfig.NewFile(f.toml, 1<<20, slog.New(slog.DiscardHandler)), Workspace: f.workspace,
		Places: new(workspaces.Workspaces),
		Log:    slog.New(slog.DiscardHandler), Build: build,
		Bounds: projects.Bounds{Prompts: maxPrompts, Files: maxFiles, PromptCache: 32 << 20},
	})
}

func (f *fixture) configure(toml string) { write(f.t, f.toml, toml) }

// folder creates a project's folder from pairs of path and content and returns its real path.
func (f *fixture) folder(files ...string) string {
	f.t.Helper()
	dir, err := filepath.EvalSymlinks(f.t.TempDir())
	if err != nil {
		f.t.Fatal(err)
	}
	for i := 0; i < len(files); i += 2 {
		write(f.t, filepath.Join(dir, files[i]), files[i+1])
	}
	return dir
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

const yamlPath = ".kaged/project.yaml"

// music is a project with two agents.
const music = `version: 1
project: music
description: Makes music.
primary:
  model: fast
  system_prompt: project:/prompts/primary.md
  cage: disabled
  subagents:
    writer:
      model: slow
      system_prompt: ./prompts/writer.md
      description: Writes.
      cage:
        fs:
          - {mode: rw, path: "project:/src"}
`

func (f *fixture) musicFolder() string {
	return f.folder(yamlPath, music, "prompts/primary.md", "You play.", "prompts/writer.md", "You write.")
}

// load loads a project, which must succeed.
func (f *fixture) load(path string) projects.Project {
	f.t.Helper()
	p, _, err := f.Load(f.ctx, "ada", path)
	if err != nil {
		f.t.Fatalf("%v %v", err, fault.From(err).Details)
	}
	return p
}

func (f *fixture) get(id string) projects.Details {
	f.t.Helper()
	d, err := f.Get(f.ctx, "ada", id)
	if err != nil {
		f.t.Fatal(err)
	}
	return d
}

// recorded returns the types of the records, oldest first.
func (f *fixture) recorded() string {
	f.t.Helper()
	records, _, err := auditstore.NewAudit(f.pool).Query(f.t.Context(), audit.Query{Owner: "ada", Limit: 100})
	if err != nil {
		f.t.Fatal(err)
	}
	var list []string
	for _, r := range records {
		list = append(list, r.EventType)
	}
	slices.Reverse(list)
	return strings.Join(list, " ")
}

// refused checks an error's code and returns its details.
func refused(t *testing.T, err error, code fault.Code) map[string]any {
	t.Helper()
	if !errors.Is(err, code) {
		t.Fatalf("err = %v, want %s", err, code)
	}
	return fault.From(err).Details
}
