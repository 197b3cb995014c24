package gateway_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"kaged.dev/pkg/fault"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
)

// consoleContract has the routes of the console other than those of sessions.
func consoleContract() []exchange {
	const project = "/api/v1/projects/music-site"
	return []exchange{
		{
			"GET /api/v1/projects/{id}/status", "GET", project + "/status", "",
			&apiv1.GetProjectStatusRequest{Id: "music-site"}, &apiv1.GetProjectStatusResponse{
				Sessions: &apiv1.SessionCounts{Running: 1, Total: 1},
				Activity: &apiv1.ProjectActivity{Budget_24H: &apiv1.ProjectBudget{TotalCost: 0.5}},
				RecentRuns: []*apiv1.RecentRun{
					{Id: "01R", SessionId: "01S", State: apiv1.RunState_RUN_STATE_RUNNING, CreatedAt: 3},
				},
			}, 200, `{"sessions":{"running":1,"idle":0,"paused":0,"ended":0,"queued":0,"total":1},` +
				`"activity":{"live_subagents":0,` +
				`"tool_calls_24h":0,"budget_24h":{"total_cost":0.5,"total_tokens_in":0,"total_tokens_out":0}},` +
				`"recent_runs":[` +
				`{"id":"01R","session_id":"01S","state":"running","duration_ms":null,"tokens_in":0,"tokens_out":0,` +
				`"cost_total":null,"created_at":3}]}`,
		},
		{
			"POST /api/v1/sessions/{session_id}/resume", "POST", "/api/v1/sessions/01S/resume", "",
			&apiv1.ResumeSessionRequest{SessionId: "01S"},
			&apiv1.ResumeSessionResponse{
				SessionId: "01S", RunId: "01R", State: apiv1.SessionState_SESSION_STATE_RUNNING, ResumedAt: 3,
			},
			200, `{"session_id":"01S","run_id":"01R","state":"running","resumed_at":3}`,
		},
		{
			"DELETE /api/v1/sessions/{session_id}/queued-message", "DELETE", "/api/v1/sessions/01S/queued-message", "",
			&apiv1.DiscardQueuedRequest{SessionId: "01S"},
			&apiv1.DiscardQueuedResponse{
				SessionId: "01S", State: apiv1.SessionState_SESSION_STATE_IDLE, MessageId: "01M", RunId: "01R",
				DiscardedAt: 3,
			},
			200, `{"session_id":"01S","state":"idle","message_id":"01M","run_id":"01R","discarded_at":3}`,
		},
		{
			"GET /api/v1/local/aliases", "GET", "/api/v1/local/aliases", "", &apiv1.ListAliasesRequest{},
			&apiv1.ListAliasesResponse{Items: []*apiv1.ModelAlias{{
				Name: "smart", Targets: []*apiv1.ModelTarget{{
					Provider: "p", Model: "m", Reason: proto.String("r"), Name: proto.String("M"),
				}},
			}}}, 200,
			`{"items":[{"name":"smart","targets":[{"provider":"p","model":"m","usable":false,"reason":"r","name":"M"}],` +
				`"usable":false}]}`,
		},
		{
			"GET /api/v1/local/providers", "GET", "/api/v1/local/providers", "", &apiv1.ListProvidersRequest{},
			&apiv1.ListProvidersResponse{Items: []*apiv1.Provider{{
				Name: "p", Driver: "openai", ApiKey: proto.String("<redacted>"), Usable: true,
			}}}, 200,
			`{"items":[{"name":"p","driver":"openai","base_url":null,"api_key":"<redacted>","headers":[],` +
				`"usable":true,"reason":null}]}`,
		},
		{
			"GET /api/v1/local/config", "GET", "/api/v1/local/config", "", &apiv1.GetLocalConfigRequest{},
			&apiv1.GetLocalConfigResponse{Config: &apiv1.LocalConfig{AdministratorDocument: "[ui]\n"}}, 200,
			`{"document":"","revision":0,"updated_at":null,"administrator_document":"[ui]\n"}`,
		},
		{
			"PUT /api/v1/local/config", "PUT", "/api/v1/local/config", `{"document":"[ui]\n"}`,
			&apiv1.SetLocalConfigRequest{Document: "[ui]\n"},
			&apiv1.SetLocalConfigResponse{
				Config: &apiv1.LocalConfig{Document: "[ui]\n", Revision: 1, UpdatedAt: proto.Int64(7)},
			}, 200, `{"document":"[ui]\n","revision":1,"updated_at":7,"administrator_document":""}`,
		},
		{
			"GET /api/v1/doctor", "GET", "/api/v1/doctor", "", &apiv1.GetDoctorRequest{},
			&apiv1.GetDoctorResponse{
				Ok: true, Version: "1", Cages: &commonv1.CageReport{Tier: "userns"},
				Checks:          []*commonv1.MachineCheck{{Name: "git", State: "ok", Detail: "d"}},
				LanguageServers: []*commonv1.LanguageServerReport{{Lang: "go", Command: "gopls", Install: "i"}},
			}, 200,
			`{"ok":true,"version":"1","cages":{"tier":"userns","layers":[]},"checks":[{"name":"git",` +
				`"state":"ok","detail":"d"}],` +
				`"language_servers":[{"lang":"go","command":"gopls","in_cage":false,"install":"i"}]}`,
		},
		{
			"GET /api/v1/projects/{id}/agents", "GET", project +
				"/agents", "", &apiv1.ListProjectAgentsRequest{Id: "music-site"},
			&apiv1.ListProjectAgentsResponse{Items: []*apiv1.ProjectAgent{{
				AgentPath: "primary", Model: "smart", Prompt: "p.md", Cage: &apiv1.AgentCage{
					Sentences: []string{"s"}, Summary: "none",
				},
				Tools:  []*apiv1.AgentTool{{Name: "file.read", Enabled: true, Why: "w", DecidedBy: "default"}},
				Limits: &apiv1.AgentLimits{MaxSteps: proto.Int32(3)},
			}}}, 200,
			`{"items":[{"agent_path":"primary","parent_path":null,"description":"","model":"smart",` +
				`"bound_to":null,"prompt":"p.md",` +
				`"tools":[{"name":"file.read","enabled":true,"why":"w","decided_by":"default","writes":false}],` +
				`"cage":{"caged":false,"sentences":["s"],"summary":"none"},"limits":{"max_steps":3,` +
				`"max_output_tokens":null,` +
				`"budget_usd":null,"budget_tokens":null,"budget_calls":null,"budget_walltime_ms":null,` +
				`"live_agents":null,"depth":null}}]}`,
		},
		{
			"GET /api/v1/projects/{id}/logs", "GET",
			project + "/logs?level=warn&source=session&session=01S&since=1&until=9&limit=2&cursor=c", "",
			&apiv1.ListProjectLogsRequest{
				Id: "music-site", Level: "warn", Source: "session", Session: "01S", Since: 1, Until: 9, Limit: 2, Cursor: "c",
			},
			&apiv1.ListProjectLogsResponse{
				Items: []*apiv1.LogEntry{
					{
						Id: "01L", Ts: 3, Level: "warn", Source: "session", Message: "m", ProjectId: "music-site", SessionId: "01S",
						Context: &structpb.Struct{Fields: map[string]*structpb.Value{"run_id": structpb.NewStringValue("01R")}},
					},
					{Id: "01K", Ts: 2, Level: "error", Source: "daemon", Message: "k", ProjectId: "music-site"},
				},
				NextCursor: proto.String("n"), HasMore: true,
			}, 200,
			`{"items":[{"id":"01L","ts":3,"level":"warn","source":"session","message":"m","projectId":"music-site",` +
				`"sessionId":"01S","context":{"run_id":"01R"}},{"id":"01K","ts":2,"level":"error","source":"daemon",` +
				`"message":"k","projectId":"music-site"}],"next_cursor":"n","has_more":true}`,
		},
		{
			"GET /api/v1/projects/{id}/files", "GET", project + "/files?path=src&limit=2", "",
			&apiv1.ListProjectFilesRequest{Id: "music-site", Path: "src", Limit: 2},
			&apiv1.ListProjectFilesResponse{
				Items: []*apiv1.ProjectEntry{{Name: "a", Path: "src/a", Kind: "file", Size: 1, ModifiedAt: 2}},
			},
			200,
			`{"items":[{"name":"a","path":"src/a","kind":"file","size":1,"modified_at":2}],"next_cursor":null,` +
				`"has_more":false}`,
		},
		{
			"GET /api/v1/projects/{id}/files/{path...}", "GET", project + "/files/src/a%20b", "",
			&apiv1.GetProjectFileRequest{Id: "music-site", Path: "src/a b"},
			&apiv1.GetProjectFileResponse{Path: "src/a b", Size: 1, ModifiedAt: 2, Binary: true}, 200,
			`{"path":"src/a b","size":1,"modified_at":2,"text":null,"sha256":null,"binary":true}`,
		},
		{
			"GET /api/v1/sessions/{session_id}/changes", "GET", "/api/v1/sessions/01S/changes?path=a", "",
			&apiv1.ListSessionChangesRequest{SessionId: "01S", Path: "a"},
			&apiv1.ListSessionChangesResponse{Items: []*apiv1.FileChange{{
				Path: "a", Kind: "created", Origin: "tool", Agents: []string{"primary"}, Added: proto.Int32(1),
				Removed: proto.Int32(0),
				Diff:    proto.String("d"),
			}}}, 200,
			`{"items":[{"path":"a","kind":"created","origin":"tool","agents":["primary"],"added":1,"removed":0,` +
				`"diff":"d","no_diff":null}],` +
				`"truncated":false,"head":null}`,
		},
	}
}

// DownloadProjectFile streams a file in two chunks.
func (m *manager) DownloadProjectFile(
	r *apiv1.DownloadProjectFileRequest, stream grpc.ServerStreamingServer[apiv1.FileChunk],
) error {
	if r.GetPath() == "none" {
		return fault.New(fault.NotFound, "There is no file at ./none.")
	}
	for _, data := range []string{"<script>", "two"} {
		if err := stream.Send(&apiv1.FileChunk{Size: 11, Data: []byte(data)}); err != nil {
			return err
		}
	}
	return nil
}

// A download returns the file's bytes and forbids the browser to show them as a page. A refusal has the usual body,
// and a stranger is refused.
func TestDownload(t *testing.T) {
	t.Parallel()
	d := start(t, setup{})
	c := d.operator()
	got := c.get("/api/v1/projects/p/download/src/a%22b.html")
	disposition := got.header.Get("Content-Disposition")
	if got.status != 200 || got.body != "<script>two" || got.header.Get("Content-Type") != "application/octet-stream" ||
		!strings.HasPrefix(
			disposition, "attachment; filename=",
		) || got.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%d %q %v", got.status, got.body, got.header)
	}
	c.get("/api/v1/projects/p/download/none").refused(t, "a missing file", 404, "not_found")
	stranger := d.client()
	stranger.get("/api/v1/projects/p/download/a").refused(t, "a stranger", 401, "unauthenticated")
}
