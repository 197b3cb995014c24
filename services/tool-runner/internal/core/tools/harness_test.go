package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/shellguard"
	"kaged.dev/pkg/syntax"
	"kaged.dev/pkg/testkit/sandboxtest"
	"kaged.dev/pkg/workspace/change"
	"kaged.dev/pkg/workspace/paths"
	"kaged.dev/services/tool-runner/internal/core/dispatch"
	"kaged.dev/services/tool-runner/internal/core/language"
	"kaged.dev/services/tool-runner/internal/core/memories"
	"kaged.dev/services/tool-runner/internal/core/reads"
	"kaged.dev/services/tool-runner/internal/core/tool"
	"kaged.dev/services/tool-runner/internal/core/tools"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a catalogue with a dispatcher, and a project for the calls.
type bench struct {
	t         testing.TB
	root      string
	env       map[string]string
	shell     *sandboxtest.Shell
	limits    tools.Limits
	rules     paths.Rules
	system    []string        // system paths, which need approval
	changed   change.Observer // receives each file that a tool changes
	languages language.Servers
	embed     memories.Embedder
	catalogue []*tool.Entry

	dispatcher *dispatch.Dispatcher
	from       contract.Caller
	emitted    strings.Builder
	onEmit     func() // called with each piece of output, if set
}

// limits are the service's defaults.
func limits() tools.Limits {
	return tools.Limits{
		ReadBytes: 512 << 10, PageBytes: 50 << 10, LineRunes: 2000, ReadFile: 1 << 30, EditFile: 32 << 20,
		DiffBytes: 16 << 10, ListEntries: 2000,
		PatchFiles: 200, PatchBytes: 128 << 20,
		Search: tools.SearchLimits{Workers: 2, Timeout: time.Minute, OutputBytes: 256 << 10, LineRunes: 2000, GlobFiles: 100},
		Memory: tools.MemoryLimits{Notes: memories.Limits{
			Files: 100, FileBytes: 64 << 10, TotalBytes: 1 << 20,
			KeptBytes: 4 << 20,
		}, SnippetRunes: 700},
		Syntax: tools.SyntaxLimits{FileBytes: 4 << 20, Nodes: 8 << 20, Parsers: 2},
		Shell: tools.ShellLimits{
			CommandBytes: 64 << 10, EnvEntries: 64, DefaultTimeout: 2 * time.Minute, MinTimeout: time.Second,
			MaxTimeout: 10 * time.Minute,
			Grace:      15 * time.Second, OutputBytes: 1 << 20, BashOutputBytes: 200 << 10, AuditRunes: 200,
			Process: tools.ProcessLimits{InputBytes: 64 << 10},
		},
	}
}

// newBench returns a bench with an empty project. adjust changes its fields before the dispatcher is created.
func newBench(t testing.TB, adjust ...func(*bench)) *bench {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{
		t: t, root: filepath.Join(root, "project"), shell: &sandboxtest.Shell{KillGrace: 200 * time.Millisecond},
		limits: limits(),
	}
	b.env = map[string]string{"PATH": os.Getenv("PATH"), "HOME": filepath.Join(root, "home")}
	for _, dir := range []string{b.root, b.env["HOME"]} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range adjust {
		c(b)
	}
	parsers := syntax.NewParsers(b.limits.Syntax.Parsers)
	t.Cleanup(parsers.Close)
	b.catalogue = tools.Catalogue(tools.Deps{
		Files: change.NewWriter(nil, b.changed), Reads: reads.New(100,
			1000), Parsers: parsers, Notes: memories.NewShelf(b.limits.Memory.Notes, http.DetectContentType, b.embed),
		Sniff: http.DetectContentType, Commands: b.shell, Limits: b.limits,
		Languages: b.languages, Told: new(language.Told),
		LookupEnv: func(name string) (string, bool) { v, ok := b.env[name]; return v, ok },
	})
	guard, err := shellguard.New(shellguard.Rules{System: b.system})
	if err != nil {
		t.Fatal(err)
	}
	b.dispatcher, err = dispatch.New(b.catalogue, dispatch.Options{
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Guard: guard, Rules: b.rules, LockWait: 5 * time.Second,
		Timeout: time.Minute, AuditValue: 1 << 10,
	})
	if err != nil {
		t.Fatal(err)
	}
	b.from = contract.Caller{SessionID: "s", RunID: "r", RequestID: "q", Agent: "primary", ProjectID: "p", Root: b.root}
	for _, e := range b.catalogue {
		b.from.Tools = append(b.from.Tools, e.Name())
	}
	return b
}

// caged returns a bench with a caged subagent as the caller.
func caged(t testing.TB, policy *dsl.Cage) *bench {
	b := newBench(t)
	b.from.Agent, b.from.Cage = "primary.subagents.coder", policy
	return b
}

// write writes a file of the project and returns its real path.
func (b *bench) write(name, content string) string {
	b.t.Helper()
	path := filepath.Join(b.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// content returns the content of a file of the project, "(none)" if it is missing.
func (b *bench) content(name string) string {
	b.t.Helper()
	data, err := os.ReadFile(filepath.Join(b.root, name))
	if errors.Is(err, os.ErrNotExist) {
		return "(none)"
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return string(data)
}

// in are the parameters of a call.
type in map[string]any

// do runs a call and returns its outcome.
func (b *bench) do(ctx context.Context, name string, params in) (dispatch.Outcome, error) {
	input, err := json.Marshal(params)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.dispatcher.Dispatch(ctx, &tool.Call{
		ID: ident.New(), Name: name, Input: input, From: b.from, Emit: func(_, text string) {
			b.emitted.WriteString(text)
			if b.onEmit != nil {
				b.onEmit()
			}
		},
	})
}

// ok runs a call that must succeed, checks its result against the tool's output schema, and decodes it into out
// (T-REG-07).
func (b *bench) ok(name string, params in, out any) dispatch.Outcome {
	b.t.Helper()
	o, err := b.do(b.t.Context(), name, params)
	if err != nil || o.Fault != nil {
		b.t.Fatalf("%s %v: %v %v", name, params, err, o.Fault)
	}
	b.conforms(o)
	if out != nil {
		if err := json.Unmarshal([]byte(o.Result.Content), out); err != nil {
			b.t.Fatalf("%s answered %q: %v", name, o.Result.Content, err)
		}
	}
	return o
}

func (b *bench) conforms(o dispatch.Outcome) {
	b.t.Helper()
	var value any
	if err := json.Unmarshal([]byte(o.Result.Content), &value); err != nil {
		b.t.Fatalf("%q is no JSON: %v", o.Result.Content, err)
	}
	for _, e := range b.catalogue {
		if e.Name() == o.Tool {
			if err := e.Output.Check(value); err != nil {
				b.t.Errorf("%s answered against its own schema: %v", o.Tool, err)
			}
		}
	}
}

// entry returns a tool of the catalogue.
func (b *bench) entry(name string) *tool.Entry {
	b.t.Helper()
	i := slices.IndexFunc(b.catalogue, func(e *tool.Entry) bool { return e.Name() == name })
	if i < 0 {
		b.t.Fatalf("there is no tool %s", name)
	}
	return b.catalogue[i]
}

// fails runs a call that must fail with code, and returns the error.
func (b *bench) fails(code fault.Code, name string, params in) *fault.Error {
	b.t.Helper()
	o, err := b.do(b.t.Context(), name, params)
	if err != nil || !errors.Is(o.Fault, code) {
		b.t.Fatalf("%s %v: error %v, fault %v, want %s; content %.200s", name, params, err, o.Fault, code, o.Result.Content)
	}
	if !o.Result.IsError || !strings.HasPrefix(o.Result.Content, `{"error":{"code":"`+code.String()+`",`) {
		b.t.Errorf("%s %v: content %s", name, params, o.Result.Content)
	}
	return o.Fault
}

// record returns the payload of an outcome's only record of a type.
func (b *bench) record(o dispatch.Outcome, event string) map[string]any {
	b.t.Helper()
	i := slices.IndexFunc(o.Records, func(r contract.Record) bool { return r.Type == event })
	if i < 0 {
		b.t.Fatalf("no %s in %v", event, o.Records)
	}
	if r := o.Records[i]; r.At == 0 || r.Agent != b.from.Agent || r.Payload["request_id"] != "q" ||
		r.Payload["caller"] != b.from.Agent {
		b.t.Errorf("record %+v", r)
	}
	return maps.Clone(o.Records[i].Payload)
}

// link creates a symbolic link in the project.
func (b *bench) link(target, name string) {
	b.t.Helper()
	if err := os.Symlink(target, filepath.Join(b.root, name)); err != nil {
		b.t.Fatal(err)
	}
}
