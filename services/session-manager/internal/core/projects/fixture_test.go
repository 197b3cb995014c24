package projects_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
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

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/testkit/pgtest"
	"kaged.dev/services/session-manager/internal/core/approval"
	"kaged.dev/services/session-manager/internal/core/audit"
	"kaged.dev/services/session-manager/internal/core/localconfig"
	"kaged.dev/services/session-manager/internal/core/projects"
	"kaged.dev/services/session-manager/internal/store"
	"kaged.dev/services/session-manager/internal/store/migrations"
)

// The bounds of projects here.
const (
	maxPrompts = 8 << 20
	maxFiles   = 64
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// compiler compiles as the harness does, with the real parser, to a snapshot of its own making.
type compiler struct {
	mu    sync.Mutex // guards the fields below
	calls int
	err   error
}

type compiled struct {
	Outline projects.Outline
	Rules   []localconfig.ToolRule
	Source  string
}

func (c *compiler) Compile(_ context.Context, in projects.CompileInput) (projects.CompileOutput, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	if c.err != nil {
		return projects.CompileOutput{}, c.err
	}
	files := make([]dsl.File, len(in.Sources))
	source := ""
	for i, s := range in.Sources {
		files[i] = dsl.File(s)
		source += string(s.Content)
	}
	r := dsl.Parse(files)
	out := projects.CompileOutput{Wanted: r.Wanted}
	for _, d := range r.Diagnostics {
		out.Diagnostics = append(out.Diagnostics, projects.Diagnostic{
			Kind: string(d.Kind), Message: d.Message, Path: d.Path, File: d.Pos.File, Line: d.Pos.Line, Column: d.Pos.Column, Warning: d.Severity == dsl.Warning,
		})
	}
	if r.Project == nil {
		return out, nil
	}
	out.Aliases, out.Prompts = references(r.Project.Aliases), references(r.Project.Prompts)
	out.ID, out.Description, out.Version = r.Project.Slug, r.Project.Description, r.Project.Version
	outline := projects.Outline{
		RootModel: r.Project.Primary.Model, ResumeOnCrash: r.Project.Primary.ResumeOnCrash, Aliases: out.Aliases, Prompts: out.Prompts,
	}
	for a := range r.Project.Agents {
		agent := approval.Agent{Path: a.Path, Model: a.Model, Prompt: a.Prompt, MaxSteps: a.MaxSteps, MaxOutputTokens: a.MaxOutputTokens, ResumeOnCrash: a.ResumeOnCrash, Cage: a.Cage}
		for _, tool := range a.Tools {
			if tool.Enabled {
				agent.Tools = append(agent.Tools, tool.Pattern)
				agent.Writes = agent.Writes || !strings.HasPrefix(tool.Pattern, "file.read")
			}
		}
		outline.Agents = append(outline.Agents, agent)
	}
	encoded, err := json.Marshal(compiled{outline, in.Rules, source})
	out.Snapshot = &projects.Snapshot{Hash: hashOf(encoded), Compiled: encoded, Outline: outline}
	return out, err
}

func (c *compiler) Outline(encoded []byte) (projects.Outline, error) {
	var s compiled
	err := json.Unmarshal(encoded, &s)
	return s.Outline, err
}

func (c *compiler) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

func references(list []dsl.Reference) []projects.Reference {
	out := []projects.Reference{}
	for _, r := range list {
		out = append(out, projects.Reference{Name: r.Name, UsedBy: r.UsedBy})
	}
	return out
}

func hashOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// workspace reads real folders as tool-runner does.
type workspace struct {
	mu    sync.Mutex // guards the fields below
	bytes int        // transferred so far
	err   error
}

func (w *workspace) ReadProject(_ context.Context, _, root string, paths []string, known map[string]string) (projects.Folder, error) {
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

// fixture is a registry with everything around it.
type fixture struct {
	*projects.Service
	t         *testing.T
	ctx       context.Context
	pool      *pgxpool.Pool
	workspace *workspace
	compiler  *compiler
	toml      string
	// end is what ending a project's sessions does.
	end func(owner, projectID string) (int, error)
}

const bound = "[models]\nfast = \"play:x\"\nslow = [\"play:y\", \"play:z\"]\n"

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{
		t: t, ctx: ident.WithCaller(t.Context(), ident.Caller{UserID: "ada", RequestID: "r1"}), pool: pgtest.New(t, migrations.Files, migrations.Schema),
		workspace: &workspace{}, compiler: &compiler{}, toml: filepath.Join(t.TempDir(), "local.toml"),
		end: func(string, string) (int, error) { return 0, nil },
	}
	f.configure(bound)
	f.restart("1.0")
	return f
}

// restart replaces the registry by one that remembers nothing, as another version of kaged.
func (f *fixture) restart(version string) {
	f.Service = projects.New(projects.Deps{
		Store: store.NewProjects(f.pool), Config: localconfig.NewFile(f.toml, 1<<20, slog.New(slog.DiscardHandler)), Workspace: f.workspace, Compiler: f.compiler,
		Sessions: projects.SessionEnderFunc(func(_ context.Context, owner, id string) (int, error) { return f.end(owner, id) }),
		Log:      slog.New(slog.DiscardHandler), Version: version,
		Bounds: projects.Bounds{Prompts: maxPrompts, Files: maxFiles, PromptCache: 32 << 20},
	})
}

func (f *fixture) configure(toml string) { write(f.t, f.toml, toml) }

// folder makes a project's folder of path and content pairs and returns its real path.
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

// music is a project of two agents.
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

// load loads a project that must load.
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

// recorded returns the types of what was recorded, oldest first.
func (f *fixture) recorded() string {
	f.t.Helper()
	records, _, err := store.NewAudit(f.pool).Query(f.t.Context(), audit.Query{Owner: "ada", Limit: 100})
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
