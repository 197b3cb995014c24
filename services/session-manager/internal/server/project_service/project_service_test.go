package projectservice_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/testing/protocmp"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/rpc"
	"kaged.dev/pkg/testkit/pgtest"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
	harnesscompile "kaged.dev/services/session-manager/internal/adapter/harness_compile"
	"kaged.dev/services/session-manager/internal/adapter/workspace"
	"kaged.dev/services/session-manager/internal/core/approval"
	"kaged.dev/services/session-manager/internal/core/localconfig"
	"kaged.dev/services/session-manager/internal/core/projects"
	projectservice "kaged.dev/services/session-manager/internal/server/project_service"
	"kaged.dev/services/session-manager/internal/store"
	"kaged.dev/services/session-manager/internal/store/migrations"
)

// harness wants a prompt, and then compiles to one agent.
type harness struct {
	harnessv1.UnimplementedHarnessServiceServer
}

func (harness) Compile(_ context.Context, req *harnessv1.CompileRequest) (*harnessv1.CompileResponse, error) {
	files := map[string]*harnessv1.SourceFile{}
	for _, f := range req.GetFiles() {
		files[f.GetPath()] = f
	}
	source := string(files[".kaged/project.yaml"].GetContent())
	if source == "broken" {
		return &harnessv1.CompileResponse{Diagnostics: []*harnessv1.Diagnostic{
			{Kind: "schema_violation", Message: "No.", Path: "primary.model", Line: 22, Column: 5, File: ".kaged/project.yaml", Severity: harnessv1.Severity_SEVERITY_ERROR},
			{Kind: "cage_disabled", Message: "Free.", Severity: harnessv1.Severity_SEVERITY_WARNING},
		}}, nil
	}
	if _, ok := files["p.md"]; !ok {
		return &harnessv1.CompileResponse{Wanted: []string{"p.md"}}, nil
	}
	return &harnessv1.CompileResponse{
		Compiled: &harnessv1.CompiledProject{Project: source, Description: "About " + source, Version: 1, ToolsOff: []string{"shell.bash"}, Root: &harnessv1.AgentNode{
			Key: "primary", Path: "primary", Model: "fast", PromptPath: "p.md", OnCrash: harnessv1.CrashPolicy_CRASH_POLICY_RESUME,
			Tools: []string{"file.read", "search.grep"}, Cage: &commonv1.CagePolicy{
				Fs: []*commonv1.CageMount{{Mode: "rw", Path: "project:/src"}, {Mode: "ro", Path: "/usr/share"}}, NetAllow: []string{"b:2", "a:1"},
			},
			Children: []*harnessv1.AgentNode{{Key: "a", Path: "primary.subagents.a", Model: "fast", PromptPath: "q.md"}},
		}},
		Hash:        "theirs",
		Diagnostics: []*harnessv1.Diagnostic{{Kind: "cage_disabled", Message: "Free.", Path: "primary", Severity: harnessv1.Severity_SEVERITY_WARNING}},
		Aliases:     []*harnessv1.Reference{{Name: "fast", UsedBy: []string{"primary"}, Present: true}},
		Prompts:     []*harnessv1.Reference{{Name: "p.md", UsedBy: []string{"primary.system_prompt"}, Present: files["p.md"].GetPresent()}},
	}, nil
}

// toolRunner holds a folder's files in memory.
type toolRunner struct {
	toolrunnerv1.UnimplementedToolRunnerServiceServer
	folders map[string]map[string]string
}

func (r toolRunner) ReadProject(_ context.Context, req *toolrunnerv1.ReadProjectRequest) (*toolrunnerv1.ReadProjectResponse, error) {
	files, ok := r.folders[req.GetRoot()]
	if !ok {
		return nil, fault.New(fault.NotFound, "No folder.")
	}
	resp := &toolrunnerv1.ReadProjectResponse{Root: req.GetRoot()}
	for _, p := range req.GetPaths() {
		f := &toolrunnerv1.ProjectFile{Path: p, State: toolrunnerv1.FileState_FILE_STATE_MISSING}
		switch content, ok := files[p]; {
		case ok && req.GetKnown()[p] == "sha-"+content:
			f.State, f.Sha256 = toolrunnerv1.FileState_FILE_STATE_UNCHANGED, "sha-"+content
		case ok && content == "refuse":
			f.State, f.Reason = toolrunnerv1.FileState_FILE_STATE_REFUSED, "too large"
		case ok:
			f.State, f.Content, f.Sha256 = toolrunnerv1.FileState_FILE_STATE_FOUND, []byte(content), "sha-"+content
		}
		resp.Files = append(resp.Files, f)
	}
	return resp, nil
}

// serve runs services over real gRPC in memory and returns a connection to them.
func serve(t *testing.T, register func(grpc.ServiceRegistrar)) *grpc.ClientConn {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer(rpc.ServerOptions(slog.New(slog.DiscardHandler))...)
	register(server)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	options := append(rpc.DialOptions(), grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	conn, err := grpc.NewClient("passthrough:memory", options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		server.Stop()
		<-done
	})
	return conn
}

func client(t *testing.T, toml string, folders map[string]map[string]string) sessionmanagerv1.ProjectServiceClient {
	t.Helper()
	path := filepath.Join(t.TempDir(), "local.toml")
	if err := os.WriteFile(path, []byte(toml), 0o600); err != nil {
		t.Fatal(err)
	}
	around := serve(t, func(r grpc.ServiceRegistrar) {
		harnessv1.RegisterHarnessServiceServer(r, harness{})
		toolrunnerv1.RegisterToolRunnerServiceServer(r, toolRunner{folders: folders})
	})
	registry := projects.New(projects.Deps{
		Store: store.NewProjects(pgtest.New(t, migrations.Files, migrations.Schema)), Config: localconfig.NewFile(path, 1<<20, slog.New(slog.DiscardHandler)),
		Workspace: workspace.New(around), Compiler: harnesscompile.New(around), Log: slog.New(slog.DiscardHandler),
		Bounds:   projects.Bounds{Prompts: 8 << 20, Files: 1024, PromptCache: 32 << 20},
		Sessions: projects.SessionEnderFunc(func(context.Context, string, string) (int, error) { return 2, nil }),
	})
	return sessionmanagerv1.NewProjectServiceClient(serve(t, func(r grpc.ServiceRegistrar) {
		sessionmanagerv1.RegisterProjectServiceServer(r, projectservice.New(registry))
	}))
}

func ada(t *testing.T) context.Context {
	return ident.WithCaller(t.Context(), ident.Caller{UserID: "ada"})
}

// A project goes from load to unregister over the wire, shown in full at each step. A-PROJ-LOAD-03, A-PROJ-LOAD-04,
// A-PROJ-GET-01, A-PROJ-CAP-01..03, A-PROJ-CAP-05, A-PROJ-LIST-02, A-PROJ-DEL-01.
func TestLifeOfAProject(t *testing.T) {
	folders := map[string]map[string]string{"/m": {".kaged/project.yaml": "music"}}
	c := client(t, "[models]\nfast = \"play:x\"\n", folders)
	ctx := ada(t)
	loaded, err := c.LoadProject(ctx, &sessionmanagerv1.LoadProjectRequest{Path: "/m"})
	if err != nil {
		t.Fatal(err)
	}
	at := loaded.GetProject().GetRegisteredAt()
	want := &sessionmanagerv1.RegisteredProject{
		Id: "music", Path: "/m", State: sessionmanagerv1.ProjectState_PROJECT_STATE_PENDING, RegisteredAt: at, Warnings: []string{"primary: Free."},
		Diagnostics: []*sessionmanagerv1.ProjectDiagnostic{{Code: "cage_disabled", Severity: "warning", Message: "Free.", Path: "primary"}},
		Unresolved:  &sessionmanagerv1.Unresolved{Prompts: []*sessionmanagerv1.UnresolvedPrompt{{Path: "p.md", UsedBy: []string{"primary.system_prompt"}}}},
	}
	if d := cmp.Diff(want, loaded.GetProject(), protocmp.Transform()); d != "" || !loaded.GetCreated() {
		t.Error(d, loaded.GetCreated())
	}
	folders["/m"]["p.md"] = "You play."
	reloaded, err := c.ReloadProject(ctx, &sessionmanagerv1.ReloadProjectRequest{Id: "music"})
	want.State, want.Unresolved = sessionmanagerv1.ProjectState_PROJECT_STATE_READY, nil
	if d := cmp.Diff(want, reloaded.GetProject(), protocmp.Transform()); d != "" || err != nil {
		t.Error(d, err)
	}
	got, err := c.GetProject(ctx, &sessionmanagerv1.GetProjectRequest{Id: "music"})
	full := &sessionmanagerv1.Project{
		Id: "music", Path: "/m", Description: "About music", State: sessionmanagerv1.ProjectState_PROJECT_STATE_READY, RegisteredAt: at, DslVersion: 1,
		ResolvedAliases: map[string]string{"fast": "play:x"}, Diagnostics: want.Diagnostics,
	}
	if d := cmp.Diff(full, got.GetProject(), protocmp.Transform()); d != "" || err != nil {
		t.Error(d, err)
	}
	may, err := c.GetProjectCapabilities(ctx, &sessionmanagerv1.GetProjectCapabilitiesRequest{Id: "music"})
	granted := &sessionmanagerv1.GetProjectCapabilitiesResponse{
		Filesystem: &sessionmanagerv1.FilesystemCapabilities{Mode: "isolated", Mounts: []string{"project:/src", "/usr/share"}},
		Network:    &sessionmanagerv1.NetworkCapabilities{Mode: "isolated", Allowlist: []string{"b:2", "a:1"}},
		Tools:      &sessionmanagerv1.ToolCapabilities{Enabled: []string{"file.read", "search.grep"}, Disabled: []string{"shell.bash"}},
		Agents: []*sessionmanagerv1.AgentCapabilities{
			{AgentPath: "primary", Caged: true, Summary: rootCage}, {AgentPath: "primary.subagents.a", Summary: "none"},
		},
	}
	if d := cmp.Diff(granted, may, protocmp.Transform()); d != "" || err != nil {
		t.Error(d, err)
	}
	list, err := c.ListProjects(ctx, &sessionmanagerv1.ListProjectsRequest{Limit: 1})
	page := &sessionmanagerv1.ListProjectsResponse{Items: []*sessionmanagerv1.ProjectSummary{
		{Id: "music", Path: "/m", Description: "About music", State: sessionmanagerv1.ProjectState_PROJECT_STATE_READY},
	}}
	if d := cmp.Diff(page, list, protocmp.Transform()); d != "" || err != nil {
		t.Error(d, err)
	}
	removed, err := c.UnregisterProject(ctx, &sessionmanagerv1.UnregisterProjectRequest{Id: "music", Confirm: true})
	if err != nil || removed.GetSessionsEnded() != 2 || removed.GetPath() != "/m" || removed.GetUnregisteredAt() < at {
		t.Errorf("removed = %v, %v", removed, err)
	}
}

// Refusals keep their codes and details over the wire. A-PROJ-LOAD-05, A-PROJ-LOAD-06.
func TestRefusals(t *testing.T) {
	c := client(t, "", map[string]map[string]string{
		"/broken": {".kaged/project.yaml": "broken"}, "/huge": {".kaged/project.yaml": "refuse"}, "/empty": {},
	})
	ctx := ada(t)
	_, err := c.LoadProject(ctx, &sessionmanagerv1.LoadProjectRequest{Path: "/broken"})
	first, _ := fault.From(err).Details["errors"].([]any)
	if !errors.Is(err, fault.DSLInvalid) || len(first) != 1 {
		t.Fatalf("err = %v, %v", err, first)
	}
	want := map[string]any{
		"path": "primary.model", "line": 22.0, "column": 5.0, "reason": "No.", "file": ".kaged/project.yaml", "kind": "schema_violation",
	}
	if d := cmp.Diff(want, first[0]); d != "" {
		t.Error(d)
	}
	_, err = c.LoadProject(ctx, &sessionmanagerv1.LoadProjectRequest{Path: "/empty"})
	if !errors.Is(err, fault.NotFound) || fault.From(err).Details["path"] != "/empty" {
		t.Errorf("empty: %v", err)
	}
	for name, err := range map[string]error{
		"get":        failure(c.GetProject(ctx, &sessionmanagerv1.GetProjectRequest{Id: "x"})),
		"may":        failure(c.GetProjectCapabilities(ctx, &sessionmanagerv1.GetProjectCapabilitiesRequest{Id: "x"})),
		"reload":     failure(c.ReloadProject(ctx, &sessionmanagerv1.ReloadProjectRequest{Id: "x"})),
		"unregister": failure(c.UnregisterProject(ctx, &sessionmanagerv1.UnregisterProjectRequest{Id: "x", Confirm: true})),
	} {
		if !errors.Is(err, fault.NotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := c.ListProjects(ctx, &sessionmanagerv1.ListProjectsRequest{Cursor: "x"}); !errors.Is(err, fault.ValidationFailed) {
		t.Errorf("list: %v", err)
	}
}

func failure[T any](_ T, err error) error { return err }

// Without an operator there is no registry.
func TestNobody(t *testing.T) {
	c := client(t, "", nil)
	for name, err := range map[string]error{
		"load":       failure(c.LoadProject(t.Context(), &sessionmanagerv1.LoadProjectRequest{Path: "/m"})),
		"list":       failure(c.ListProjects(t.Context(), &sessionmanagerv1.ListProjectsRequest{})),
		"get":        failure(c.GetProject(t.Context(), &sessionmanagerv1.GetProjectRequest{Id: "x"})),
		"may":        failure(c.GetProjectCapabilities(t.Context(), &sessionmanagerv1.GetProjectCapabilitiesRequest{Id: "x"})),
		"reload":     failure(c.ReloadProject(t.Context(), &sessionmanagerv1.ReloadProjectRequest{Id: "x"})),
		"unregister": failure(c.UnregisterProject(t.Context(), &sessionmanagerv1.UnregisterProjectRequest{Id: "x", Confirm: true})),
	} {
		if !errors.Is(err, fault.Unauthenticated) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// rootCage is the cage of the fake harness's root agent in one line.
const rootCage = "fs rw project:/src, ro /usr/share; net b:2, a:1; seccomp default; capabilities none"

// A snapshot that is read back from its bytes says what the compilation said.
func TestOutline(t *testing.T) {
	conn := serve(t, func(r grpc.ServiceRegistrar) { harnessv1.RegisterHarnessServiceServer(r, harness{}) })
	compiler := harnesscompile.New(conn)
	out, err := compiler.Compile(t.Context(), projects.CompileInput{
		Sources: []projects.Source{{Path: ".kaged/project.yaml", Present: true, Content: []byte("music")}, {Path: "p.md", Present: true}},
		Rules:   []localconfig.ToolRule{{Pattern: "shell.*", Enabled: true}},
	})
	if err != nil || len(out.Snapshot.Hash) != 64 {
		t.Fatalf("%+v, %v", out, err)
	}
	want := projects.Outline{
		RootModel: "fast", ResumeOnCrash: true, Caged: true,
		Capabilities: projects.Capabilities{
			Mounts: []string{"project:/src", "/usr/share"}, Net: []string{"b:2", "a:1"}, Tools: []string{"file.read", "search.grep"}, ToolsOff: []string{"shell.bash"},
			Agents: []projects.AgentCage{{Path: "primary", Caged: true, Summary: rootCage}, {Path: "primary.subagents.a", Summary: "none"}},
		},
		Aliases: []projects.Reference{{Name: "fast", UsedBy: []string{"primary", "primary.subagents.a"}}},
		Prompts: []projects.Reference{
			{Name: "p.md", UsedBy: []string{"primary.system_prompt"}}, {Name: "q.md", UsedBy: []string{"primary.subagents.a.system_prompt"}},
		},
		Agents: []approval.Agent{
			{
				Path: "primary", Model: "fast", Prompt: "p.md", Tools: []string{"file.read", "search.grep"}, Writes: true, ResumeOnCrash: true,
				Cage: &dsl.Cage{FS: []dsl.Mount{{Mode: "rw", Path: "project:/src"}, {Mode: "ro", Path: "/usr/share"}}, Net: []string{"b:2", "a:1"}},
			},
			{Path: "primary.subagents.a", Model: "fast", Prompt: "q.md", Writes: true},
		},
	}
	back, err := compiler.Outline(out.Snapshot.Compiled)
	if d := cmp.Diff(want, back); d != "" || err != nil || !cmp.Equal(back, out.Snapshot.Outline) {
		t.Error(d, err)
	}
	if _, err := compiler.Outline([]byte("\xff")); !errors.Is(err, fault.Internal) {
		t.Errorf("garbage: %v", err)
	}
}
