package gateway_test

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"

	"kaged.dev/pkg/fault"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	sm "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/gateway/internal/server"
)

// exchange is a request of a contract route: what session-manager is to be asked, what it answers, what the client gets.
type exchange struct {
	route  string // as in the contract
	method string
	path   string
	body   string
	asked  proto.Message
	reply  proto.Message
	status int
	want   string // the body
}

func contract() []exchange {
	project := &sm.RegisteredProject{Id: "music-site", Path: "/p", State: sm.ProjectState_PROJECT_STATE_READY, RegisteredAt: 1716300000000}
	const projectJSON = `{"id":"music-site","path":"/p","label":null,"state":"ready","registered_at":1716300000000,"diagnostics":[]}`
	session := &sm.Session{
		Id: "01S", ProjectId: "music-site", Name: proto.String("n"), Label: proto.String("n"), State: sm.SessionState_SESSION_STATE_IDLE,
		CreatedAt: 1716300000000, UpdatedAt: 1716300000001, Totals: &sm.SessionTotals{TokensIn: 1, CostUsd: proto.Float64(0.5)},
	}
	const sessionJSON = `{"id":"01S","project_id":"music-site","name":"n","label":"n","state":"idle","blocked_reason":null,` +
		`"created_at":1716300000000,"updated_at":1716300000001,"ended_at":null,"message_count":0,"model_override":null,` +
		`"max_steps_override":null,"max_output_tokens_override":null,"current_run":null,"live_subagents":[],` +
		`"totals":{"tokens_in":1,"tokens_out":0,"cost_usd":0.5},"cage_status":null}`
	run := &sm.Run{Id: "01R", SessionId: "01S", State: sm.RunState_RUN_STATE_FAILED, Outcome: proto.String("failed"), Error: &commonv1.Error{
		Code: commonv1.ErrorCode_ERROR_CODE_PROVIDER_UNREACHABLE, Message: "m",
	}, CageStatus: "caged"}
	const runJSON = `{"id":"01R","session_id":"01S","trigger_message_id":"","message_id":"","state":"failed","outcome":"failed","stop_reason":null,` +
		`"created_at":0,"started_at":null,"ended_at":null,"duration_ms":null,"tokens_in":0,"tokens_out":0,"cost_total":null,` +
		`"error":{"code":"provider_unreachable","message":"m"},"steps":[],"subagent_invocations":[],"compiled_hash":"","prompt_hashes":{},"cage_status":"caged"}`
	approval := &sm.Approval{
		Id: "01A", SessionId: "01S", RunId: "01R", ToolCallId: "c1", State: sm.ApprovalState_APPROVAL_STATE_PENDING, RequestedAt: 1, ExpiresAt: 2,
		Subject: &commonv1.ApprovalSubject{Tool: "shell.bash", AgentPath: "primary", Reasons: []string{"r"}, Command: "git push --force", Cwd: "./"},
	}
	const approvalJSON = `{"id":"01A","session_id":"01S","run_id":"01R","tool_call_id":"c1","state":"pending","subject":{"tool":"shell.bash",` +
		`"agent_path":"primary","reasons":["r"],"command":"git push --force","cwd":"./","paths":[],"preview":""},"requested_at":1,"expires_at":2,` +
		`"resolved_at":null,"resolved_by":null,"comment":null}`
	const emptyPage = `{"items":[],"next_cursor":null,"has_more":false}`
	return []exchange{
		{
			"GET /api/v1/projects", "GET", "/api/v1/projects?limit=2&cursor=c&unknown=x", "",
			&sm.ListProjectsRequest{Limit: 2, Cursor: "c"}, &sm.ListProjectsResponse{
				Items:   []*sm.ProjectSummary{{Id: "music-site", Path: "/p", Label: proto.String("L"), State: sm.ProjectState_PROJECT_STATE_PENDING, SessionCount: 3}},
				HasMore: true, NextCursor: proto.String("d"),
			},
			200, `{"items":[{"id":"music-site","path":"/p","label":"L","description":"","last_opened_at":null,"state":"pending","session_count":3}],"next_cursor":"d","has_more":true}`,
		},
		{
			"POST /api/v1/projects/load", "POST", "/api/v1/projects/load", `{"path":"/p","label":"x","nickname":"y"}`,
			&sm.LoadProjectRequest{Path: "/p"}, &sm.LoadProjectResponse{Project: project, Created: true}, 201, projectJSON,
		},
		{
			"GET /api/v1/projects/{id}", "GET", "/api/v1/projects/music-site", "",
			&sm.GetProjectRequest{Id: "music-site"}, &sm.GetProjectResponse{Project: &sm.Project{Id: "music-site", ResolvedAliases: map[string]string{"b": "p:m", "a": "p:n"}}},
			200, `{"id":"music-site","path":"","label":null,"description":"","state":"unspecified","registered_at":0,"last_opened_at":null,"dsl_version":0,` +
				`"resolved_aliases":{"a":"p:n","b":"p:m"},"active_plugins":[],"session_count":0,"diagnostics":[]}`,
		},
		{
			"GET /api/v1/projects/{id}/approval", "GET", "/api/v1/projects/music-site/approval", "",
			&sm.GetProjectApprovalRequest{Id: "music-site"}, &sm.GetProjectApprovalResponse{
				State: sm.ProjectApprovalState_PROJECT_APPROVAL_STATE_REQUIRED, ApprovedHash: proto.String("a"), PendingHash: proto.String("b"),
				Widened: []*sm.Widening{{AgentPath: "primary", Key: "cage", From: proto.String("isolated"), To: proto.String("disabled")}}, Diff: "-a\n+b\n",
			},
			200, `{"state":"required","approved_hash":"a","pending_hash":"b",` +
				`"widened":[{"agent_path":"primary","key":"cage","from":"isolated","to":"disabled"}],"diff":"-a\n+b\n"}`,
		},
		{
			"POST /api/v1/projects/{id}/approve", "POST", "/api/v1/projects/music-site/approve", `{"hash":"b"}`,
			&sm.ApproveProjectRequest{Id: "music-site", Hash: "b"}, &sm.ApproveProjectResponse{Hash: "b", ApprovedAt: 5, ApprovedBy: "operator"},
			200, `{"hash":"b","approved_at":5,"approved_by":"operator"}`,
		},
		{
			"GET /api/v1/projects/{id}/capabilities", "GET", "/api/v1/projects/music-site/capabilities", "",
			&sm.GetProjectCapabilitiesRequest{Id: "music-site"}, &sm.GetProjectCapabilitiesResponse{
				Filesystem: &sm.FilesystemCapabilities{Mode: "isolated", Mounts: []string{"project:/src", "project:/.kaged"}},
				Network:    &sm.NetworkCapabilities{Mode: "disabled"},
				Tools:      &sm.ToolCapabilities{Enabled: []string{"file.read"}, Disabled: []string{"file.write"}},
			},
			200, `{"filesystem":{"mode":"isolated","mounts":["project:/src","project:/.kaged"]},"network":{"mode":"disabled","allowlist":[]},` +
				`"tools":{"enabled":["file.read"],"disabled":["file.write"]},"agents":[]}`,
		},
		{
			"POST /api/v1/projects/{id}/reload", "POST", "/api/v1/projects/music-site/reload", "",
			&sm.ReloadProjectRequest{Id: "music-site"}, &sm.ReloadProjectResponse{Project: project}, 200, projectJSON,
		},
		{
			"DELETE /api/v1/projects/{id}", "DELETE", "/api/v1/projects/music-site?confirm=true", "",
			&sm.UnregisterProjectRequest{Id: "music-site", Confirm: true}, &sm.UnregisterProjectResponse{Id: "music-site", Path: "/p", SessionsEnded: 1, UnregisteredAt: 5},
			200, `{"id":"music-site","path":"/p","sessions_ended":1,"unregistered_at":5}`,
		},
		{
			"POST /api/v1/projects/{project_id}/sessions", "POST", "/api/v1/projects/music-site/sessions", `{"name":"n","project_id":"other"}`,
			&sm.CreateSessionRequest{ProjectId: "music-site", Name: "n"},
			&sm.CreateSessionResponse{Id: "01S", ProjectId: "music-site", State: sm.SessionState_SESSION_STATE_IDLE, CreatedAt: 1, Name: proto.String("n"), Label: proto.String("n")},
			201, `{"id":"01S","project_id":"music-site","state":"idle","created_at":1,"name":"n","label":"n"}`,
		},
		{
			"GET /api/v1/projects/{project_id}/sessions", "GET", "/api/v1/projects/music-site/sessions", "",
			&sm.ListSessionsRequest{ProjectId: "music-site"}, &sm.ListSessionsResponse{}, 200, emptyPage,
		},
		{"GET /api/v1/sessions/{id}", "GET", "/api/v1/sessions/01S", "", &sm.GetSessionRequest{Id: "01S"}, &sm.GetSessionResponse{Session: session}, 200, sessionJSON},
		{
			"PUT /api/v1/sessions/{id}", "PUT", "/api/v1/sessions/01S", `{"label":null,"max_steps_override":3}`,
			&sm.UpdateSessionRequest{Id: "01S", Label: structpb.NewNullValue(), MaxStepsOverride: structpb.NewNumberValue(3)}, &sm.UpdateSessionResponse{Session: session}, 200, sessionJSON,
		},
		{
			"DELETE /api/v1/sessions/{id}", "DELETE", "/api/v1/sessions/01S?confirm=true", "",
			&sm.EndSessionRequest{Id: "01S", Confirm: true}, &sm.EndSessionResponse{Session: session}, 200, sessionJSON,
		},
		{
			"POST /api/v1/sessions/{session_id}/messages", "POST", "/api/v1/sessions/01S/messages", `{"content":"hi","max_output_tokens_override":77}`,
			&sm.PostMessageRequest{SessionId: "01S", Content: proto.String("hi"), MaxOutputTokensOverride: proto.Int32(77)},
			&sm.PostMessageResponse{Id: "01M", SessionId: "01S", AcceptedAt: 1716300000000, RunId: "01R"},
			202, `{"id":"01M","session_id":"01S","accepted_at":1716300000000,"run_id":"01R"}`,
		},
		{
			"GET /api/v1/sessions/{session_id}/messages", "GET", "/api/v1/sessions/01S/messages?since=01M&limit=7", "",
			&sm.ListMessagesRequest{SessionId: "01S", Since: "01M", Limit: 7}, &sm.ListMessagesResponse{Items: []*sm.SessionMessage{{
				Id: "01M", SessionId: "01S", Role: sm.MessageRole_MESSAGE_ROLE_PRIMARY, Content: "c",
				Parts: []*sm.MessagePart{{Type: "tool_call", Id: "t", Name: "file.read", Input: []byte("{}")}}, RunId: proto.String("01R"),
			}}},
			200, `{"items":[{"id":"01M","session_id":"01S","role":"primary","content":"c","parts":[{"type":"tool_call","id":"t","name":"file.read","input":{}}],` +
				`"created_at":0,"superseded":false,"run_id":"01R"}],"next_cursor":null,"has_more":false}`,
		},
		{"GET /api/v1/sessions/{session_id}/runs", "GET", "/api/v1/sessions/01S/runs", "", &sm.ListRunsRequest{SessionId: "01S"}, &sm.ListRunsResponse{}, 200, emptyPage},
		{
			"GET /api/v1/sessions/{session_id}/runs/{run_id}", "GET", "/api/v1/sessions/01S/runs/01R", "",
			&sm.GetRunRequest{SessionId: "01S", RunId: "01R"}, &sm.GetRunResponse{Run: run}, 200, runJSON,
		},
		{
			"POST /api/v1/sessions/{session_id}/runs/{run_id}/cancel", "POST", "/api/v1/sessions/01S/runs/01R/cancel", "",
			&sm.CancelRunRequest{SessionId: "01S", RunId: "01R"}, &sm.CancelRunResponse{Run: run}, 200, runJSON,
		},
		{
			"GET /api/v1/processes", "GET", "/api/v1/processes", "", &sm.ListProcessesRequest{}, &sm.ListProcessesResponse{}, 200, `{"processes":[],"cages":[],"runs":[]}`,
		},
		{
			"GET /api/v1/sessions/{session_id}/processes", "GET", "/api/v1/sessions/01S/processes", "", &sm.ListProcessesRequest{SessionId: "01S"},
			&sm.ListProcessesResponse{
				Processes: []*commonv1.RunningProcess{{Id: "01P", SessionId: "01S", AgentPath: "primary", Pid: 7, Command: "sleep 1", MemoryBytes: 2, CpuMs: 3}},
				Cages:     []*commonv1.RunningCage{{Id: "01C", SessionId: "01S", AgentPath: "primary", Tier: "userns", Processes: 1}},
			},
			200, `{"processes":[{"id":"01P","session_id":"01S","project_id":"","run_id":"","agent_path":"primary","cage_id":null,"pid":7,"command":"sleep 1",` +
				`"started_at":0,"memory_bytes":2,"cpu_ms":3,"background":false}],"cages":[{"id":"01C","session_id":"01S","project_id":"","run_id":"",` +
				`"agent_path":"primary","tier":"userns","best_effort":[],"started_at":0,"memory_bytes":0,"cpu_ms":0,"processes":1}],"runs":[]}`,
		},
		{
			"GET /api/v1/sessions/{session_id}/approvals", "GET", "/api/v1/sessions/01S/approvals?state=pending&limit=2&cursor=c", "",
			&sm.ListApprovalsRequest{SessionId: "01S", State: "pending", Limit: 2, Cursor: "c"}, &sm.ListApprovalsResponse{Items: []*sm.Approval{approval}},
			200, `{"items":[` + approvalJSON + `],"next_cursor":null,"has_more":false}`,
		},
		{
			"GET /api/v1/sessions/{session_id}/approvals/{approval_id}", "GET", "/api/v1/sessions/01S/approvals/01A", "",
			&sm.GetApprovalRequest{SessionId: "01S", ApprovalId: "01A"}, &sm.GetApprovalResponse{Approval: approval}, 200, approvalJSON,
		},
		{
			"POST /api/v1/sessions/{session_id}/approvals/{approval_id}", "POST", "/api/v1/sessions/01S/approvals/01A", `{"decision":"deny","comment":"no"}`,
			&sm.AnswerApprovalRequest{SessionId: "01S", ApprovalId: "01A", Decision: "deny", Comment: "no"}, &sm.AnswerApprovalResponse{Approval: approval},
			200, approvalJSON,
		},
		{
			"GET /api/v1/audit", "GET", "/api/v1/audit?since=1&until=2&project_id=p&session=s&event_type=auth.*,x&limit=200", "",
			&sm.QueryAuditRequest{Since: 1, Until: 2, ProjectId: "p", Session: "s", EventType: "auth.*,x", Limit: 200}, &sm.QueryAuditResponse{}, 200, emptyPage,
		},
	}
}

// Every route of the contract has an exchange here (A-TEST-01), and none is missing in the gateway (A-URL-INDEX-01).
func TestContractIsCovered(t *testing.T) {
	t.Parallel()
	var here []string
	for _, e := range contract() {
		here = append(here, e.route)
	}
	routes := server.ContractRoutes()
	slices.Sort(here)
	slices.Sort(routes)
	if diff := cmp.Diff(routes, here); diff != "" {
		t.Errorf("contract -, tests +:\n%s", diff)
	}
}

// Every route asks session-manager what the client asked, as the operator, and answers in the contract's shape (A-TEST-01,
// A-WIRE-CTYPE-02, A-WIRE-PAGE-01, A-MSG-POST-02, A-PROJ-LOAD-02, -03, A-SESS-NEW-01, A-HDR-OUT-04).
func TestContract(t *testing.T) {
	t.Parallel()
	d := start(t, setup{})
	c := d.operator()
	for _, e := range contract() {
		d.manager.replies(e.reply, nil)
		got := c.do(e.method, e.path, e.body)
		if got.status != e.status {
			t.Errorf("%s: status %d, want %d: %s", e.route, got.status, e.status, got.body)
		}
		if diff := cmp.Diff(e.want, got.body); diff != "" {
			t.Errorf("%s: want -, got +:\n%s", e.route, diff)
		}
		if ct, cc := got.header.Get("Content-Type"), got.header.Get("Cache-Control"); ct != "application/json; charset=utf-8" || cc != "no-store" {
			t.Errorf("%s: Content-Type %q, Cache-Control %q", e.route, ct, cc)
		}
		d.manager.with(func() {
			if len(d.manager.asked) != 1 {
				t.Fatalf("%s: session-manager was asked %d times", e.route, len(d.manager.asked))
			}
			if diff := cmp.Diff(e.asked, d.manager.asked[0], protocmp.Transform()); diff != "" {
				t.Errorf("%s: asked, want -, got +:\n%s", e.route, diff)
			}
			caller := d.manager.callers[0]
			if caller.UserID == "" || caller.AuthMode != "loopback" || caller.RequestID != got.header.Get("X-Kaged-Request-Id") {
				t.Errorf("%s: asked for %+v", e.route, caller)
			}
		})
	}
}

// A fault of session-manager reaches the client on every route with its status, code and details (A-TEST-01, A-TEST-07).
func TestContractRefusals(t *testing.T) {
	t.Parallel()
	d := start(t, setup{})
	c := d.operator()
	for _, e := range contract() {
		d.manager.replies(nil, fault.New(fault.NotFound, "There is none.").With("path", "/p"))
		if r := c.do(e.method, e.path, e.body).refused(t, e.route, 404, "not_found"); r.Details["path"] != "/p" {
			t.Errorf("%s: details %v", e.route, r.Details)
		}
	}
	for _, f := range []struct {
		give   *fault.Error
		status int
		code   string
	}{
		{fault.New(fault.BadRequest, "m"), 400, "bad_request"}, // A-ERR-CODE-01
		{fault.New(fault.ValidationFailed, "m"), 400, "validation_failed"},
		{fault.New(fault.ValidationFailed, "m").WithHTTP(422), 422, "validation_failed"}, // A-CONTRA-04
		{fault.New(fault.Unauthenticated, "m"), 401, "unauthenticated"},
		{fault.New(fault.Forbidden, "m"), 403, "forbidden"},
		{fault.New(fault.Conflict, "m"), 409, "conflict"},
		{fault.New(fault.Gone, "m"), 410, "gone"},
		{fault.New(fault.DSLInvalid, "m"), 422, "dsl_invalid"},
		{fault.New(fault.RateLimited, "m").With("retry_after_ms", 1500), 429, "rate_limited"},
		{fault.New(fault.Internal, "m"), 500, "internal"},
		{fault.New(fault.ProviderUnreachable, "m").With("provider", "p"), 502, "provider_unreachable"},
		{fault.New(fault.Unavailable, "m").With("subsystem", "storage"), 503, "unavailable"}, // A-FAIL-02
		{fault.New(fault.DeadlineExceeded, "m"), 504, "deadline_exceeded"},
		{fault.New(fault.ProjectNotReady, "m"), 409, "project_not_ready"},
	} {
		d.manager.replies(nil, f.give)
		got := c.get("/api/v1/projects")
		got.refused(t, fmt.Sprint(f.give), f.status, f.code)
		want := map[int]string{429: "2", 503: "1"}[f.status]
		if after := got.header.Get("Retry-After"); after != want {
			t.Errorf("%s: Retry-After %q, want %q", f.code, after, want)
		}
	}
}

// The answer to a load tells a project that is ready from one that is not or was known (A-PROJ-LOAD-03, -04, -09).
func TestLoadStatus(t *testing.T) {
	t.Parallel()
	d := start(t, setup{})
	c := d.operator()
	for _, x := range []struct {
		created bool
		state   sm.ProjectState
		status  int
	}{
		{true, sm.ProjectState_PROJECT_STATE_READY, 201}, {false, sm.ProjectState_PROJECT_STATE_READY, 200}, {true, sm.ProjectState_PROJECT_STATE_PENDING, 200},
	} {
		d.manager.replies(&sm.LoadProjectResponse{Created: x.created, Project: &sm.RegisteredProject{State: x.state}}, nil)
		if got := c.do("POST", "/api/v1/projects/load", `{"path":"/p"}`); got.status != x.status {
			t.Errorf("created %v, %v: %d", x.created, x.state, got.status)
		}
	}
}

// What a client sends wrongly is refused before anybody is asked (A-ERR-CODE-01, -02, A-WIRE-CTYPE-01, A-CONTRA-04).
func TestBadRequests(t *testing.T) {
	t.Parallel()
	d := start(t, setup{config: map[string]any{"body_limit": int64(1000)}})
	c := d.operator()
	d.manager.replies(&sm.PostMessageResponse{}, nil)
	const post = "/api/v1/sessions/01S/messages"
	large := `{"content":"` + strings.Repeat("x", 1000) + `"}`
	for name, x := range map[string]struct {
		method, path, body string
		header             http.Header
		status             int
		code               string
		field              string
	}{
		"no JSON":                  {"POST", post, `{"content"`, nil, 400, "bad_request", ""},
		"not UTF-8":                {"POST", post, "{\"content\":\"\xff\"}", nil, 400, "bad_request", ""},
		"a wrong type":             {"POST", post, `{"content":1}`, nil, 400, "validation_failed", "content"},
		"a fraction":               {"POST", post, `{"max_steps_override":1.5}`, nil, 400, "validation_failed", "max_steps_override"},
		"out of range":             {"POST", post, `{"max_steps_override":99999999999}`, nil, 422, "validation_failed", "max_steps_override"},
		"a key twice":              {"POST", post, `{"content":"a","content":"b"}`, nil, 400, "validation_failed", "content"},
		"XML":                      {"POST", post, `<a/>`, http.Header{"Content-Type": {"text/xml"}}, 400, "bad_request", ""},
		"no content type":          {"POST", post, `{}`, http.Header{"Content-Type": {""}}, 400, "bad_request", ""},
		"another charset":          {"POST", post, `{}`, http.Header{"Content-Type": {"application/json; charset=latin1"}}, 400, "bad_request", ""},
		"a form":                   {"POST", post, `content=x`, http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, 400, "bad_request", ""},
		"too large":                {"POST", post, large, nil, 413, "payload_too_large", ""},
		"a word for a number":      {"GET", "/api/v1/projects?limit=abc", "", nil, 400, "validation_failed", "limit"},
		"nothing for a number":     {"GET", "/api/v1/projects?limit=", "", nil, 400, "validation_failed", "limit"},
		"a fraction in the query":  {"GET", "/api/v1/projects?limit=1.0", "", nil, 400, "validation_failed", "limit"},
		"past 32 bits":             {"GET", "/api/v1/projects?limit=4294967297", "", nil, 400, "validation_failed", "limit"},
		"a parameter twice":        {"GET", "/api/v1/projects?limit=1&limit=2", "", nil, 400, "validation_failed", "limit"},
		"no boolean":               {"DELETE", "/api/v1/sessions/01S?confirm=yes", "", nil, 400, "validation_failed", "confirm"},
		"text that is not UTF-8":   {"GET", "/api/v1/projects?cursor=%ff", "", nil, 400, "validation_failed", "cursor"},
		"an unknown route":         {"GET", "/api/v1/zzz", "", http.Header{"Accept": {"text/html"}}, 404, "not_found", ""},
		"another version":          {"GET", "/api/v2/me", "", nil, 404, "not_found", ""},
		"no version":               {"GET", "/api/me", "", nil, 404, "not_found", ""},
		"a slash too many":         {"GET", "/api/v1//me", "", nil, 404, "not_found", ""},
		"a slash at the end":       {"GET", "/api/v1/me/", "", nil, 404, "not_found", ""},
		"dots":                     {"GET", "/api/v1/x/../me", "", nil, 404, "not_found", ""},
		"a slash inside an id":     {"GET", "/api/v1/projects/a%2Fb", "", nil, 404, "not_found", ""},
		"another method":           {"DELETE", "/api/v1/me", "", nil, 405, "method_not_allowed", ""},
		"another method of a page": {"POST", "/", "", nil, 405, "method_not_allowed", ""},
		"the removed create route": {"POST", "/api/v1/projects", `{}`, nil, 405, "method_not_allowed", ""}, // A-URL-REMOVED-01
		"audit is append-only":     {"PUT", "/api/v1/audit", `{}`, nil, 405, "method_not_allowed", ""},
		"a made-up method":         {"BREW", "/api/v1/zzz", "", nil, 404, "not_found", ""},
	} {
		c.header = x.header
		got := c.do(x.method, x.path, x.body)
		r := got.refused(t, name, x.status, x.code)
		if x.field != "" {
			if diff := cmp.Diff([]any{x.field}, r.Details["fields"]); diff != "" {
				t.Errorf("%s: details.fields, want -, got +:\n%s", name, diff)
			}
		}
		if x.status == 405 && got.header.Get("Allow") == "" {
			t.Errorf("%s: no Allow", name)
		}
		if x.status == 413 && r.Details["limit_bytes"] != float64(1000) {
			t.Errorf("%s: details %v", name, r.Details)
		}
	}
	c.header = nil
	d.manager.with(func() {
		if len(d.manager.asked) > 0 {
			t.Errorf("session-manager was asked %v", d.manager.asked)
		}
	})
}

// A body that is longer than it says to be is cut off at the limit, too.
func TestChunkedBodyIsBounded(t *testing.T) {
	t.Parallel()
	d := start(t, setup{config: map[string]any{"body_limit": int64(1000)}})
	c := d.operator()
	r, err := http.NewRequestWithContext(t.Context(), "POST", d.base+"/api/v1/sessions/01S/messages",
		struct{ *strings.Reader }{strings.NewReader(`{"content":"` + strings.Repeat("x", 5000) + `"}`)})
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Kaged-CSRF", c.cookie("kaged_csrf"))
	resp, err := c.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d", resp.StatusCode)
	}
}

// Nothing a client puts into headers reaches session-manager as who is calling or as anything else.
func TestHeadersAreNotForwarded(t *testing.T) {
	t.Parallel()
	d := start(t, setup{})
	c := d.operator()
	c.header = http.Header{
		"Grpc-Metadata-Kaged-User-Id": {"eve"}, "Authorization": {"Bearer x"}, "X-Kaged-User-Id": {"eve"}, "Grpc-Timeout": {"1n"},
		"X-Http-Method-Override": {"DELETE"}, "Te": {"trailers"},
	}
	d.manager.replies(&sm.ListProjectsResponse{}, nil)
	if got := c.get("/api/v1/projects"); got.status != 200 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	d.manager.with(func() {
		if user := d.manager.callers[0].UserID; user == "eve" || user == "" {
			t.Errorf("the call was made for %q", user)
		}
	})
}

// An empty body is an empty object, and HEAD is GET without a body.
func TestEmptyBodyAndHead(t *testing.T) {
	t.Parallel()
	d := start(t, setup{})
	c := d.operator()
	d.manager.replies(&sm.CreateSessionResponse{}, nil)
	if got := c.do("POST", "/api/v1/projects/p/sessions", ""); got.status != 201 {
		t.Errorf("an empty body: %d %s", got.status, got.body)
	}
	d.manager.replies(&sm.ListProjectsResponse{}, nil)
	if got := c.do("HEAD", "/api/v1/projects", ""); got.status != 200 || got.body != "" {
		t.Errorf("HEAD: %d %q", got.status, got.body)
	}
}

// A path that no service can carry names nothing: every route answers 404 with the error object, and asks no service.
func TestPathsThatNameNothing(t *testing.T) {
	t.Parallel()
	d := start(t, setup{})
	c := d.operator()
	asked := func() (n int) {
		d.manager.with(func() { n = len(d.manager.asked) })
		return n
	}
	before := asked()
	for _, pattern := range append(server.ContractRoutes(), "GET /api/v1/sessions/{id}/socket") {
		method, path, _ := strings.Cut(pattern, " ")
		if !strings.Contains(path, "{") {
			continue
		}
		for _, odd := range []string{"%ff", "%c0%80", "%ed%a0%80", "a%ffb", "%00"} {
			url := regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(path, odd)
			c.do(method, url, "").refused(t, method+" "+url, 404, "not_found")
		}
	}
	if n := asked(); n != before {
		t.Errorf("got %d calls of session-manager, want none", n-before)
	}
}
