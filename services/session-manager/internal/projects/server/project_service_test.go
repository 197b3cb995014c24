package server_test

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

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/rpc"
	"kaged.dev/pkg/testkit/pgtest"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
	"kaged.dev/services/session-manager/internal/adapter/toolrunner"
	"kaged.dev/services/session-manager/internal/database/migrations"
	"kaged.dev/services/session-manager/internal/operators/core/localconfig"
	"kaged.dev/services/session-manager/internal/operators/core/workspaces"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
	"kaged.dev/services/session-manager/internal/projects/server"
	"kaged.dev/services/session-manager/internal/projects/store"
	"kaged.dev/services/session-manager/internal/sagas/core/unregister"
	sagasstore "kaged.dev/services/session-manager/internal/sagas/store"
)

// music is a project with two agents in one cage. It causes a warning about a key without effect.
const music = `version: 1
project: music
description: About music
primary:
  model: fast
  system_prompt: ./p.md
  cage:
    fs: [{mode: rw, path: "project:/src"}, {mode: ro, path: /usr/share}]
    net: {allow: ["b:2", "a:1"]}
  subagents:
    a: {model: fast, system_prompt: ./p.md, description: Helps.}
  compaction: {strategy: checkpoint}
`

// dormant is this warning.
const dormant = "strategy: checkpoint is not in force yet: conversations are compacted by drop."

// broken is a project with an agent that lacks a model.
const broken = `version: 1
project: broken
primary:
  system_prompt: ./p.md
`

// toolRunner has folders' files in memory, and a tool of each kind.
type toolRunner struct {
	toolrunnerv1.UnimplementedToolRunnerServiceServer
	folders map[string]map[string]string
}

func (toolRunner) ListTools(context.Context, *toolrunnerv1.ListToolsRequest) (*toolrunnerv1.ListToolsResponse, error) {
	return &toolrunnerv1.ListToolsResponse{Tools: []*toolrunnerv1.Tool{
		{Name: "file.read", Category: toolrunnerv1.Category_CATEGORY_READ, DefaultRoot: true},
		{Name: "search.grep", Category: toolrunnerv1.Category_CATEGORY_READ, DefaultRoot: true},
		{Name: "shell.bash", Category: toolrunnerv1.Category_CATEGORY_WRITE},
	}}, nil
}

func (r toolRunner) ReadProject(
	_ context.Context, req *toolrunnerv1.ReadProjectRequest,
) (*toolrunnerv1.ReadProjectResponse, error) {
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
	options := append(rpc.DialOptions(), grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return listener.DialContext(ctx)
	}))
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
		toolrunnerv1.RegisterToolRunnerServiceServer(r, toolRunner{folders: folders})
	})
	pool := pgtest.New(t, migrations.Files, migrations.Schema)
	kept := store.NewProjects(pool)
	tools := toolrunner.New(
		func(string) (grpc.ClientConnInterface, error) { return around, nil }, new(workspaces.Workspaces).Check,
	)
	registry := projects.New(projects.Deps{
		Registry: kept, Approvals: kept, Contents: kept,
		Config:    localconfig.NewFile(path, 1<<20, slog.New(slog.DiscardHandler)),
		Workspace: tools, Places: new(workspaces.Workspaces), Log: slog.New(slog.DiscardHandler),
		Bounds: projects.Bounds{Prompts: 8 << 20, Files: 1024, PromptCache: 32 << 20},
	})
	return sessionmanagerv1.NewProjectServiceClient(serve(t, func(r grpc.ServiceRegistrar) {
		sessionmanagerv1.RegisterProjectServiceServer(
			r, server.New(
				registry, unregister.New(
					registry, twoSessions{}, sagasstore.New(pool), tools, func(string, string) {},
				),
			),
		)
	}))
}

// twoSessions ends two sessions with any project.
type twoSessions struct{}

func (twoSessions) EndProjectSessions(context.Context, string, string) (int, error) { return 2, nil }

func ada(t *testing.T) context.Context {
	return ident.WithCaller(t.Context(), ident.Caller{UserID: "ada"})
}

// A project is loaded, read and unregistered over the protocol, and each step returns it completely. A-PROJ-LOAD-03,
// A-PROJ-LOAD-04, A-PROJ-GET-01, A-PROJ-CAP-01..03, A-PROJ-CAP-05, A-PROJ-LIST-02, A-PROJ-DEL-01.
func TestLifeOfAProject(t *testing.T) {
	folders := map[string]map[string]string{"/m": {".kaged/project.yaml": music}}
	c := client(t, "[models]\nfast = \"play:x\"\n", folders)
	ctx := ada(t)
	loaded, err := c.LoadProject(ctx, &apiv1.LoadProjectRequest{Path: "/m"})
	if err != nil {
		t.Fatal(err)
	}
	at := loaded.GetProject().GetRegisteredAt()
	want := &apiv1.RegisteredProject{
		Id: "music", Path: "/m", State: apiv1.ProjectState_PROJECT_STATE_PENDING, RegisteredAt: at,
		Warnings: []string{"primary.compaction.strategy: " + dormant},
		Diagnostics: []*apiv1.ProjectDiagnostic{{
			Code: "not_in_force", Severity: "warning", Message: dormant, Path: "primary.compaction.strategy",
			File: ".kaged/project.yaml", Line: 12, Column: 26,
		}},
		Unresolved: &apiv1.Unresolved{
			Prompts: []*apiv1.UnresolvedPrompt{
				{Path: "p.md", UsedBy: []string{"primary.system_prompt", "primary.subagents.a.system_prompt"}},
			},
		},
	}
	if d := cmp.Diff(want, loaded.GetProject(), protocmp.Transform()); d != "" || !loaded.GetCreated() {
		t.Error(d, loaded.GetCreated())
	}
	folders["/m"]["p.md"] = "You play."
	reloaded, err := c.ReloadProject(ctx, &apiv1.ReloadProjectRequest{Id: "music"})
	want.State, want.Unresolved = apiv1.ProjectState_PROJECT_STATE_READY, nil
	if d := cmp.Diff(want, reloaded.GetProject(), protocmp.Transform()); d != "" || err != nil {
		t.Error(d, err)
	}
	got, err := c.GetProject(ctx, &apiv1.GetProjectRequest{Id: "music"})
	full := &apiv1.Project{
		Id: "music", Path: "/m", Description: "About music", State: apiv1.ProjectState_PROJECT_STATE_READY, RegisteredAt: at,
		DslVersion:      1,
		ResolvedAliases: map[string]string{"fast": "play:x"}, Diagnostics: want.Diagnostics,
	}
	if d := cmp.Diff(full, got.GetProject(), protocmp.Transform()); d != "" || err != nil {
		t.Error(d, err)
	}
	may, err := c.GetProjectCapabilities(ctx, &apiv1.GetProjectCapabilitiesRequest{Id: "music"})
	granted := &apiv1.GetProjectCapabilitiesResponse{
		Filesystem: &apiv1.FilesystemCapabilities{Mode: "isolated", Mounts: []string{"project:/src", "/usr/share"}},
		Network:    &apiv1.NetworkCapabilities{Mode: "isolated", Allowlist: []string{"b:2", "a:1"}},
		Tools:      &apiv1.ToolCapabilities{Enabled: []string{"file.read", "search.grep"}, Disabled: []string{"shell.bash"}},
		Agents: []*apiv1.AgentCapabilities{
			{AgentPath: "primary", Caged: true, Summary: rootCage},
			{AgentPath: "primary.subagents.a", Caged: true, Summary: rootCage},
		},
	}
	if d := cmp.Diff(granted, may, protocmp.Transform()); d != "" || err != nil {
		t.Error(d, err)
	}
	list, err := c.ListProjects(ctx, &apiv1.ListProjectsRequest{Limit: 1})
	page := &apiv1.ListProjectsResponse{Items: []*apiv1.ProjectSummary{
		{Id: "music", Path: "/m", Description: "About music", State: apiv1.ProjectState_PROJECT_STATE_READY},
	}}
	if d := cmp.Diff(page, list, protocmp.Transform()); d != "" || err != nil {
		t.Error(d, err)
	}
	removed, err := c.UnregisterProject(ctx, &apiv1.UnregisterProjectRequest{Id: "music", Confirm: true})
	if err != nil || removed.GetSessionsEnded() != 2 || removed.GetPath() != "/m" || removed.GetUnregisteredAt() < at {
		t.Errorf("removed = %v, %v", removed, err)
	}
}

// Errors keep their codes and details over the protocol. A-PROJ-LOAD-05, A-PROJ-LOAD-06.
func TestRefusals(t *testing.T) {
	c := client(t, "", map[string]map[string]string{
		"/broken": {".kaged/project.yaml": broken}, "/huge": {".kaged/project.yaml": "refuse"}, "/empty": {},
	})
	ctx := ada(t)
	_, err := c.LoadProject(ctx, &apiv1.LoadProjectRequest{Path: "/broken"})
	first, _ := fault.From(err).Details["errors"].([]any)
	if !errors.Is(err, fault.DSLInvalid) || len(first) != 1 {
		t.Fatalf("err = %v, %v", err, first)
	}
	want := map[string]any{
		"path": "primary.model", "line": 3.0, "column": 1.0, "reason": "model is required.", "file": ".kaged/project.yaml",
		"kind": "schema_violation",
	}
	if d := cmp.Diff(want, first[0]); d != "" {
		t.Error(d)
	}
	_, err = c.LoadProject(ctx, &apiv1.LoadProjectRequest{Path: "/empty"})
	if !errors.Is(err, fault.NotFound) || fault.From(err).Details["path"] != "/empty" {
		t.Errorf("empty: %v", err)
	}
	for name, err := range map[string]error{
		"get":        failure(c.GetProject(ctx, &apiv1.GetProjectRequest{Id: "x"})),
		"may":        failure(c.GetProjectCapabilities(ctx, &apiv1.GetProjectCapabilitiesRequest{Id: "x"})),
		"reload":     failure(c.ReloadProject(ctx, &apiv1.ReloadProjectRequest{Id: "x"})),
		"unregister": failure(c.UnregisterProject(ctx, &apiv1.UnregisterProjectRequest{Id: "x", Confirm: true})),
	} {
		if !errors.Is(err, fault.NotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := c.ListProjects(ctx, &apiv1.ListProjectsRequest{Cursor: "x"}); !errors.Is(err, fault.ValidationFailed) {
		t.Errorf("list: %v", err)
	}
}

func failure[T any](_ T, err error) error { return err }

// rootCage is the cage of the project's agents on one line.
const rootCage = "fs rw project:/src, ro /usr/share; net b:2, a:1; seccomp default; capabilities none"
