package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"

	"kaged.dev/pkg/fault"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	"kaged.dev/services/gateway/internal/server"
)

// exchange is a request of a contract route: the call to session-manager, its answer, and the client's.
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
	project := &apiv1.RegisteredProject{
		Id: "music-site", Path: "/p", State: apiv1.ProjectState_PROJECT_STATE_READY, RegisteredAt: 1716300000000,
	}
	const projectJSON = `{"id":"music-site","path":"/p","label":null,"state":"ready","registered_at":1716300000000,` +
		`"diagnostics":[]}`
	session := &apiv1.Session{
		Id: "01S", ProjectId: "music-site", Name: proto.String("n"), Label: proto.String("n"),
		State:     apiv1.SessionState_SESSION_STATE_IDLE,
		CreatedAt: 1716300000000, UpdatedAt: 1716300000001,
		Totals: &apiv1.SessionTotals{TokensIn: 1, CostUsd: proto.Float64(0.5)},
	}
	const sessionJSON = `{"id":"01S","project_id":"music-site","name":"n","label":"n","state":"idle",` +
		`"blocked_reason":null,` +
		`"created_at":1716300000000,"updated_at":1716300000001,"ended_at":null,"message_count":0,"model_override":null,` +
		`"max_steps_override":null,"max_output_tokens_override":null,"current_run":null,"live_subagents":[],` +
		`"totals":{"tokens_in":1,"tokens_out":0,"cost_usd":0.5},"cage_status":null,"issue_number":null,"budget":null}`
	run := &apiv1.Run{
		Id: "01R", SessionId: "01S", State: apiv1.RunState_RUN_STATE_FAILED, Outcome: proto.String("failed"),
		Error: &commonv1.Error{
			Code: commonv1.ErrorCode_ERROR_CODE_PROVIDER_UNREACHABLE, Message: "m",
		}, CageStatus: "caged",
	}
	const runJSON = `{"id":"01R","session_id":"01S","trigger_message_id":"","message_id":"","state":"failed",` +
		`"outcome":"failed","stop_reason":null,` +
		`"created_at":0,"started_at":null,"ended_at":null,"duration_ms":null,"tokens_in":0,"tokens_out":0,"cost_total":null,` +
		`"error":{"code":"provider_unreachable","message":"m"},"steps":[],"subagent_invocations":[],"compiled_hash":"",` +
		`"prompt_hashes":{},"cage_status":"caged"}`
	approval := &apiv1.Approval{
		Id: "01A", SessionId: "01S", RunId: "01R", ToolCallId: "c1", State: apiv1.ApprovalState_APPROVAL_STATE_PENDING,
		RequestedAt: 1, ExpiresAt: 2,
		Subject: &commonv1.ApprovalSubject{
			Tool: "shell.bash", AgentPath: "primary", Reasons: []string{"r"}, Command: "git push --force", Cwd: "./",
		},
	}
	const approvalJSON = `{"id":"01A","session_id":"01S","run_id":"01R","tool_call_id":"c1","state":"pending",` +
		`"subject":{"tool":"shell.bash",` +
		`"agent_path":"primary","reasons":["r"],"command":"git push ` +
		`--force","cwd":"./","paths":[],"preview":""},"requested_at":1,"expires_at":2,` +
		`"resolved_at":null,"resolved_by":null,"comment":null,"hash":"","standing_approval_id":null}`
	const standingJSON = `{"id":"01P","project_id":"music-site","scope":"project","session_id":null,"kind":"words",` +
		`"text":"T.","words":["git","push"],"subject":{"tool":"shell.bash","agent_path":"primary","reasons":[],` +
		`"command":"git push x","cwd":"./","paths":[],"preview":"","standing":["words"],"words":["git","push","x"]},` +
		`"approval_id":"01A","created_at":1,"created_by":"ada","revoked_at":null,"revoked_by":null,"used":3,` +
		`"last_used_at":2}`
	standing := &apiv1.StandingApproval{
		Id: "01P", ProjectId: "music-site", Scope: "project", Kind: "words", Text: "T.", Words: []string{"git", "push"},
		Subject: &commonv1.ApprovalSubject{
			Tool: "shell.bash", AgentPath: "primary", Command: "git push x", Cwd: "./", Standing: []string{"words"},
			Words: []string{"git", "push", "x"},
		},
		ApprovalId: "01A", CreatedAt: 1, CreatedBy: "ada", Used: 3, LastUsedAt: proto.Int64(2),
	}
	const emptyPage = `{"items":[],"next_cursor":null,"has_more":false}`
	issue := &apiv1.Issue{
		Id: "01I", ProjectId: "music-site", Number: 3, Title: "T", Body: "B",
		Status: apiv1.IssueStatus_ISSUE_STATUS_IN_PROGRESS, CreatedBy: "agent:primary",
		CreatedAt: 1, UpdatedAt: 2, Version: 4, LegalTransitions: []apiv1.IssueStatus{
			apiv1.IssueStatus_ISSUE_STATUS_RESOLVED,
		},
	}
	const issueJSON = `{"id":"01I","project_id":"music-site","number":3,"title":"T","body":"B","original_body":null,` +
		`"status":"in_progress","assignment":null,` +
		`"created_by":"agent:primary","created_at":1,"updated_at":2,"resolved_at":null,"resolved_by":null,"version":4,` +
		`"legal_transitions":["resolved"]}`
	update := &apiv1.IssueUpdate{
		Id: "01U", IssueNumber: 3, Author: "ada",
		Kind: apiv1.IssueUpdateKind_ISSUE_UPDATE_KIND_COMMENT, Body: "b", Metadata: &structpb.Struct{},
		Visibility: apiv1.IssueVisibility_ISSUE_VISIBILITY_ALL, CreatedAt: 1,
	}
	const updateJSON = `{"id":"01U","issue_number":3,"author":"ada","kind":"comment","body":"b","metadata":{},` +
		`"visibility":"all","created_at":1}`
	todo := &apiv1.IssueTodo{
		Id: "01T", Content: "c", Status: apiv1.TodoStatus_TODO_STATUS_PENDING,
		Kind: apiv1.TodoKind_TODO_KIND_CRITERION, Position: 1, Notes: []*apiv1.TodoNote{{
			Text: "n", Author: "ada",
			CreatedAt: 1,
		}}, CreatedAt: 1,
	}
	const todoJSON = `{"id":"01T","content":"c","status":"pending","kind":"criterion","phase":null,"position":1,` +
		`"notes":[{"text":"n","author":"ada","created_at":1}],` +
		`"origin_agent":null,"created_at":1,"completed_at":null,"verified_at":null,"verified_by":null}`
	const issues = "/api/v1/projects/music-site/issues"
	return append(slices.Concat(dslContract(), consoleContract()), []exchange{
		{
			"GET /api/v1/projects/{project_id}/issues", "GET", issues + "?q=a&status=open,resolved&limit=2", "",
			&apiv1.ListIssuesRequest{ProjectId: "music-site", Q: "a", Status: "open,resolved", Limit: 2},
			&apiv1.ListIssuesResponse{
				Items: []*apiv1.IssueSummary{{
					Id: "01I", ProjectId: "music-site", Number: 3, Title: "T",
					Status: apiv1.IssueStatus_ISSUE_STATUS_OPEN, Version: 1,
				}},
			}, 200,
			`{"items":[{"id":"01I","project_id":"music-site","number":3,"title":"T","status":"open","assignment":null,` +
				`"created_by":"","created_at":0,"updated_at":0,` +
				`"resolved_at":null,"resolved_by":null,"version":1}],"next_cursor":null,"has_more":false}`,
		},
		{
			"POST /api/v1/projects/{project_id}/issues", "POST", issues, `{"title":"T","body":"B","client_id":"c"}`,
			&apiv1.CreateIssueRequest{ProjectId: "music-site", Title: "T", Body: "B", ClientId: "c"},
			&apiv1.CreateIssueResponse{Issue: issue, Created: true}, 201, issueJSON,
		},
		{
			"GET /api/v1/projects/{project_id}/issues/{number}", "GET", issues + "/3", "",
			&apiv1.GetIssueRequest{ProjectId: "music-site", Number: 3}, &apiv1.GetIssueResponse{Issue: &apiv1.IssueDetail{
				Id: "01I", ProjectId: "music-site", Number: 3, Title: "T", Body: "B",
				Status: apiv1.IssueStatus_ISSUE_STATUS_IN_PROGRESS, CreatedBy: "agent:primary",
				CreatedAt: 1, UpdatedAt: 2, Version: 4, LegalTransitions: []apiv1.IssueStatus{
					apiv1.IssueStatus_ISSUE_STATUS_RESOLVED,
				}, Updates: []*apiv1.IssueUpdate{update},
			}}, 200, strings.TrimSuffix(issueJSON, "}") + `,"updates":[` + updateJSON + `]}`,
		},
		{
			"PATCH /api/v1/projects/{project_id}/issues/{number}", "PATCH", issues + "/3",
			`{"assignment":null,"status":"resolved","comment":"done"}`,
			&apiv1.UpdateIssueRequest{
				ProjectId: "music-site", Number: 3, Assignment: structpb.NewNullValue(),
				Status: apiv1.IssueStatus_ISSUE_STATUS_RESOLVED, Comment: "done",
			}, &apiv1.UpdateIssueResponse{Issue: issue}, 200, issueJSON,
		},
		{
			"GET /api/v1/projects/{project_id}/issues/{number}/updates", "GET", issues + "/3/updates?limit=1", "",
			&apiv1.ListIssueUpdatesRequest{ProjectId: "music-site", Number: 3, Limit: 1}, &apiv1.ListIssueUpdatesResponse{},
			200, emptyPage,
		},
		{
			"POST /api/v1/projects/{project_id}/issues/{number}/updates", "POST", issues + "/3/updates",
			`{"body":"b","visibility":"all"}`,
			&apiv1.AddIssueUpdateRequest{
				ProjectId: "music-site", Number: 3, Body: "b",
				Visibility: apiv1.IssueVisibility_ISSUE_VISIBILITY_ALL,
			},
			&apiv1.AddIssueUpdateResponse{Update: update}, 201, updateJSON,
		},
		{
			"GET /api/v1/projects/{project_id}/issues/{number}/todos", "GET", issues + "/3/todos", "",
			&apiv1.ListIssueTodosRequest{ProjectId: "music-site", Number: 3},
			&apiv1.ListIssueTodosResponse{Items: []*apiv1.IssueTodo{todo}},
			200, `{"items":[` + todoJSON + `]}`,
		},
		{
			"POST /api/v1/projects/{project_id}/issues/{number}/todos", "POST", issues + "/3/todos",
			`{"items":["c"],"kind":"criterion"}`,
			&apiv1.AddIssueTodosRequest{
				ProjectId: "music-site", Number: 3, Items: []string{"c"},
				Kind: apiv1.TodoKind_TODO_KIND_CRITERION,
			},
			&apiv1.AddIssueTodosResponse{Items: []*apiv1.IssueTodo{todo}}, 201, `{"items":[` + todoJSON + `]}`,
		},
		{
			"PATCH /api/v1/projects/{project_id}/issues/{number}/todos/{id}", "PATCH", issues + "/3/todos/01T",
			`{"verified":true}`,
			&apiv1.UpdateIssueTodoRequest{ProjectId: "music-site", Number: 3, Id: "01T", Verified: proto.Bool(true)},
			&apiv1.UpdateIssueTodoResponse{Todo: todo}, 200, todoJSON,
		},
		{
			"GET /api/v1/projects", "GET", "/api/v1/projects?limit=2&cursor=c&unknown=x", "",
			&apiv1.ListProjectsRequest{Limit: 2, Cursor: "c"}, &apiv1.ListProjectsResponse{
				Items: []*apiv1.ProjectSummary{
					{
						Id: "music-site", Path: "/p", Label: proto.String("L"), State: apiv1.ProjectState_PROJECT_STATE_PENDING,
						SessionCount: 3,
					},
				},
				HasMore: true, NextCursor: proto.String("d"),
			},
			200,
			`{"items":[{"id":"music-site","path":"/p","label":"L","description":"","last_opened_at":null,"state":"pending",` +
				`"session_count":3}],"next_cursor":"d","has_more":true}`,
		},
		{
			"POST /api/v1/projects/load", "POST", "/api/v1/projects/load", `{"path":"/p","label":"x","nickname":"y"}`,
			&apiv1.LoadProjectRequest{Path: "/p"}, &apiv1.LoadProjectResponse{Project: project, Created: true}, 201, projectJSON,
		},
		{
			"GET /api/v1/projects/{id}", "GET", "/api/v1/projects/music-site", "",
			&apiv1.GetProjectRequest{Id: "music-site"}, &apiv1.GetProjectResponse{
				Project: &apiv1.Project{Id: "music-site", ResolvedAliases: map[string]string{"b": "p:m", "a": "p:n"}},
			},
			200,
			`{"id":"music-site","path":"","label":null,"description":"","state":"unspecified","registered_at":0,` +
				`"last_opened_at":null,"dsl_version":0,` +
				`"resolved_aliases":{"a":"p:n","b":"p:m"},"active_plugins":[],"session_count":0,"diagnostics":[]}`,
		},
		{
			"GET /api/v1/projects/{id}/approval", "GET", "/api/v1/projects/music-site/approval", "",
			&apiv1.GetProjectApprovalRequest{Id: "music-site"}, &apiv1.GetProjectApprovalResponse{
				State: apiv1.ProjectApprovalState_PROJECT_APPROVAL_STATE_REQUIRED, ApprovedHash: proto.String("a"),
				PendingHash: proto.String("b"),
				Widened: []*apiv1.Widening{
					{AgentPath: "primary", Key: "cage", From: proto.String("isolated"), To: proto.String("disabled")},
				}, Diff: "-a\n+b\n",
			},
			200, `{"state":"required","approved_hash":"a","pending_hash":"b",` +
				`"widened":[{"agent_path":"primary","key":"cage","from":"isolated","to":"disabled"}],"diff":"-a\n+b\n"}`,
		},
		{
			"POST /api/v1/projects/{id}/approve", "POST", "/api/v1/projects/music-site/approve", `{"hash":"b"}`,
			&apiv1.ApproveProjectRequest{Id: "music-site", Hash: "b"},
			&apiv1.ApproveProjectResponse{Hash: "b", ApprovedAt: 5, ApprovedBy: "operator"},
			200, `{"hash":"b","approved_at":5,"approved_by":"operator"}`,
		},
		{
			"GET /api/v1/projects/{id}/capabilities", "GET", "/api/v1/projects/music-site/capabilities", "",
			&apiv1.GetProjectCapabilitiesRequest{Id: "music-site"}, &apiv1.GetProjectCapabilitiesResponse{
				Filesystem: &apiv1.FilesystemCapabilities{Mode: "isolated", Mounts: []string{"project:/src", "project:/.kaged"}},
				Network:    &apiv1.NetworkCapabilities{Mode: "disabled"},
				Tools:      &apiv1.ToolCapabilities{Enabled: []string{"file.read"}, Disabled: []string{"file.write"}},
			},
			200,
			`{"filesystem":{"mode":"isolated","mounts":["project:/src","project:/.kaged"]},"network":{"mode":"disabled",` +
				`"allowlist":[]},` +
				`"tools":{"enabled":["file.read"],"disabled":["file.write"]},"agents":[]}`,
		},
		{
			"POST /api/v1/projects/{id}/reload", "POST", "/api/v1/projects/music-site/reload", "",
			&apiv1.ReloadProjectRequest{Id: "music-site"}, &apiv1.ReloadProjectResponse{Project: project}, 200, projectJSON,
		},
		{
			"DELETE /api/v1/projects/{id}", "DELETE", "/api/v1/projects/music-site?confirm=true", "",
			&apiv1.UnregisterProjectRequest{Id: "music-site", Confirm: true},
			&apiv1.UnregisterProjectResponse{Id: "music-site", Path: "/p", SessionsEnded: 1, UnregisteredAt: 5},
			200, `{"id":"music-site","path":"/p","sessions_ended":1,"unregistered_at":5}`,
		},
		{
			"POST /api/v1/projects/{project_id}/sessions", "POST", "/api/v1/projects/music-site/sessions",
			`{"name":"n","project_id":"other"}`,
			&apiv1.CreateSessionRequest{ProjectId: "music-site", Name: "n"},
			&apiv1.CreateSessionResponse{
				Id: "01S", ProjectId: "music-site", State: apiv1.SessionState_SESSION_STATE_IDLE, CreatedAt: 1,
				Name: proto.String("n"), Label: proto.String("n"),
			},
			201,
			`{"id":"01S","project_id":"music-site","state":"idle","created_at":1,"name":"n","label":"n","issue_number":null}`,
		},
		{
			"GET /api/v1/projects/{project_id}/sessions", "GET", "/api/v1/projects/music-site/sessions", "",
			&apiv1.ListSessionsRequest{ProjectId: "music-site"}, &apiv1.ListSessionsResponse{}, 200, emptyPage,
		},
		{
			"GET /api/v1/sessions", "GET", "/api/v1/sessions?q=rename+view&project_id=music-site&limit=1", "",
			&apiv1.SearchSessionsRequest{Q: proto.String("rename view"), ProjectId: "music-site", Limit: 1},
			&apiv1.SearchSessionsResponse{
				Items: []*apiv1.FoundSession{{
					Id: "01S", ProjectId: "music-site", State: apiv1.SessionState_SESSION_STATE_IDLE,
					CreatedAt: 1, UpdatedAt: 2, MessageCount: 3, MatchedMessageId: proto.String("01M"),
				}},
			},
			200, `{"items":[{"id":"01S","project_id":"music-site","name":null,"label":null,"state":"idle",` +
				`"created_at":1,"updated_at":2,"model_override":null,"max_steps_override":null,` +
				`"max_output_tokens_override":null,"message_count":3,"issue_number":null,` +
				`"matched_message_id":"01M"}],"next_cursor":null,"has_more":false}`,
		},
		{
			"GET /api/v1/approvals", "GET", "/api/v1/approvals?state=pending&limit=1", "",
			&apiv1.ListAllApprovalsRequest{State: "pending", Limit: 1},
			&apiv1.ListAllApprovalsResponse{
				Items: []*apiv1.Approval{approval}, NextCursor: proto.String("c"), HasMore: true,
			},
			200, `{"items":[` + approvalJSON + `],"next_cursor":"c","has_more":true}`,
		},
		{
			"GET /api/v1/standing-approvals", "GET", "/api/v1/standing-approvals?project_id=music-site&revoked=true&limit=1", "",
			&apiv1.ListStandingApprovalsRequest{ProjectId: "music-site", Revoked: true, Limit: 1},
			&apiv1.ListStandingApprovalsResponse{Items: []*apiv1.StandingApproval{standing}},
			200, `{"items":[` + standingJSON + `],"next_cursor":null,"has_more":false}`,
		},
		{
			"DELETE /api/v1/standing-approvals/{id}", "DELETE", "/api/v1/standing-approvals/01P", "",
			&apiv1.RevokeStandingApprovalRequest{Id: "01P"}, &apiv1.RevokeStandingApprovalResponse{StandingApproval: standing},
			200, standingJSON,
		},
		{
			"POST /api/v1/tokens", "POST", "/api/v1/tokens", `{"name":"ci","scope":"run"}`,
			&apiv1.CreateTokenRequest{Name: "ci", Scope: apiv1.TokenScope_TOKEN_SCOPE_RUN},
			&apiv1.CreateTokenResponse{
				Id: "01T", Name: "ci", Scope: apiv1.TokenScope_TOKEN_SCOPE_RUN, CreatedAt: 1, Token: "kaged_x",
			},
			201, `{"id":"01T","name":"ci","scope":"run","created_at":1,"expires_at":null,"token":"kaged_x"}`,
		},
		{
			"GET /api/v1/tokens", "GET", "/api/v1/tokens", "", &apiv1.ListTokensRequest{},
			&apiv1.ListTokensResponse{Items: []*apiv1.Token{{
				Id: "01T", Name: "ci", Scope: apiv1.TokenScope_TOKEN_SCOPE_READ,
				CreatedAt: 1, ExpiresAt: proto.Int64(2),
			}}},
			200, `{"items":[{"id":"01T","name":"ci","scope":"read","created_at":1,"expires_at":2,` +
				`"last_used_at":null}]}`,
		},
		{
			"DELETE /api/v1/tokens/{id}", "DELETE", "/api/v1/tokens/01T", "", &apiv1.RevokeTokenRequest{Id: "01T"},
			&apiv1.RevokeTokenResponse{Token: &apiv1.Token{
				Id: "01T", Name: "ci", Scope: apiv1.TokenScope_TOKEN_SCOPE_ADMIN, LastUsedAt: proto.Int64(3),
			}},
			200, `{"id":"01T","name":"ci","scope":"admin","created_at":0,"expires_at":null,"last_used_at":3}`,
		},
		{
			"GET /api/v1/sessions/{id}", "GET", "/api/v1/sessions/01S", "", &apiv1.GetSessionRequest{Id: "01S"},
			&apiv1.GetSessionResponse{Session: session}, 200, sessionJSON,
		},
		{
			"PUT /api/v1/sessions/{id}", "PUT", "/api/v1/sessions/01S", `{"label":null,"max_steps_override":3}`,
			&apiv1.UpdateSessionRequest{Id: "01S", Label: structpb.NewNullValue(), MaxStepsOverride: structpb.NewNumberValue(3)},
			&apiv1.UpdateSessionResponse{Session: session}, 200, sessionJSON,
		},
		{
			"DELETE /api/v1/sessions/{id}", "DELETE", "/api/v1/sessions/01S?confirm=true", "",
			&apiv1.EndSessionRequest{Id: "01S", Confirm: true}, &apiv1.EndSessionResponse{Session: session}, 200, sessionJSON,
		},
		{
			"POST /api/v1/sessions/{session_id}/messages", "POST", "/api/v1/sessions/01S/messages",
			`{"content":"hi","max_output_tokens_override":77}`,
			&apiv1.PostMessageRequest{SessionId: "01S", Content: proto.String("hi"), MaxOutputTokensOverride: proto.Int32(77)},
			&apiv1.PostMessageResponse{Id: "01M", SessionId: "01S", AcceptedAt: 1716300000000, RunId: "01R"},
			202, `{"id":"01M","session_id":"01S","accepted_at":1716300000000,"run_id":"01R"}`,
		},
		{
			"GET /api/v1/sessions/{session_id}/messages", "GET",
			"/api/v1/sessions/01S/messages?since=01M&limit=7&newest_first=true", "",
			&apiv1.ListMessagesRequest{SessionId: "01S", Since: "01M", Limit: 7, NewestFirst: true},
			&apiv1.ListMessagesResponse{TurnsBefore: proto.Int32(0), Items: []*apiv1.SessionMessage{{
				Id: "01M", SessionId: "01S", Role: apiv1.MessageRole_MESSAGE_ROLE_PRIMARY, Content: "c",
				Parts: []*apiv1.MessagePart{{Type: "tool_call", Id: "t", Name: "file.read", Input: []byte("{}")}},
				RunId: proto.String("01R"),
			}}},
			200,
			`{"items":[{"id":"01M","session_id":"01S","role":"primary","content":"c","parts":[{"type":"tool_call","id":"t",` +
				`"name":"file.read","input":{}}],` +
				`"created_at":0,"superseded":false,"run_id":"01R"}],"next_cursor":null,"has_more":false,"turns_before":0}`,
		},
		{
			"GET /api/v1/sessions/{session_id}/runs", "GET", "/api/v1/sessions/01S/runs", "",
			&apiv1.ListRunsRequest{SessionId: "01S"}, &apiv1.ListRunsResponse{}, 200, emptyPage,
		},
		{
			"GET /api/v1/sessions/{session_id}/runs/{run_id}", "GET", "/api/v1/sessions/01S/runs/01R", "",
			&apiv1.GetRunRequest{SessionId: "01S", RunId: "01R"}, &apiv1.GetRunResponse{Run: run}, 200, runJSON,
		},
		{
			"GET /api/v1/sessions/{session_id}/runs/{run_id}/tool-results/{tool_call_id}", "GET",
			"/api/v1/sessions/01S/runs/01R/tool-results/functions.read:0", "",
			&apiv1.GetToolResultRequest{SessionId: "01S", RunId: "01R", ToolCallId: "functions.read:0"},
			&apiv1.GetToolResultResponse{Result: &apiv1.MessagePart{
				Type: "tool_result", ToolCallId: "functions.read:0", Name: "file.read", Input: []byte("{}"), Output: "text",
			}},
			200, `{"type":"tool_result","tool_call_id":"functions.read:0","name":"file.read","input":{},"output":"text"}`,
		},
		{
			"POST /api/v1/sessions/{session_id}/runs/{run_id}/cancel", "POST", "/api/v1/sessions/01S/runs/01R/cancel", "",
			&apiv1.CancelRunRequest{SessionId: "01S", RunId: "01R"}, &apiv1.CancelRunResponse{Run: run}, 200, runJSON,
		},
		{
			"GET /api/v1/language-servers", "GET", "/api/v1/language-servers?project_id=demo", "",
			&apiv1.ListLanguageServersRequest{ProjectId: "demo"},
			&apiv1.ListLanguageServersResponse{Servers: languageServers}, 200, languageServersJSON,
		},
		{
			"POST /api/v1/projects/{project_id}/language-servers/restart", "POST",
			"/api/v1/projects/demo/language-servers/restart", `{"lang":"go"}`,
			&apiv1.RestartLanguageServersRequest{ProjectId: "demo", Lang: "go"},
			&apiv1.RestartLanguageServersResponse{Servers: languageServers}, 200, languageServersJSON,
		},
		{
			"GET /api/v1/processes", "GET", "/api/v1/processes", "", &apiv1.ListProcessesRequest{},
			&apiv1.ListProcessesResponse{}, 200, `{"processes":[],"cages":[],"runs":[]}`,
		},
		{
			"GET /api/v1/sessions/{session_id}/processes", "GET", "/api/v1/sessions/01S/processes", "",
			&apiv1.ListProcessesRequest{SessionId: "01S"},
			&apiv1.ListProcessesResponse{
				Processes: []*commonv1.RunningProcess{
					{Id: "01P", SessionId: "01S", AgentPath: "primary", Pid: 7, Command: "sleep 1", MemoryBytes: 2, CpuMs: 3},
				},
				Cages: []*commonv1.RunningCage{
					{Id: "01C", SessionId: "01S", AgentPath: "primary", Tier: "userns", Processes: 1},
				},
			},
			200,
			`{"processes":[{"id":"01P","session_id":"01S","project_id":"","run_id":"","agent_path":"primary","cage_id":null,` +
				`"pid":7,"command":"sleep 1",` +
				`"started_at":0,"memory_bytes":2,"cpu_ms":3,"background":false,"terminal":false}],"cages":[{"id":"01C",` +
				`"session_id":"01S","project_id":"","run_id":"",` +
				`"agent_path":"primary","tier":"userns","best_effort":[],"started_at":0,"memory_bytes":0,"cpu_ms":0,` +
				`"processes":1}],"runs":[]}`,
		},
		{
			"GET /api/v1/spend", "GET", "/api/v1/spend?since=5", "",
			&apiv1.GetSpendRequest{Since: proto.Int64(5)},
			&apiv1.GetSpendResponse{Since: 5, Until: 9, Total: &apiv1.SpendSum{CostUsd: 0.5, Tokens: 7, Calls: 2}},
			200, `{"since":5,"until":9,"total":{"cost_usd":0.5,"tokens":7,"calls":2,"estimated":0},` +
				`"groups":[],"has_more":false}`,
		},
		{
			"POST /api/v1/sessions/{session_id}/processes/{process_id}/signal", "POST",
			"/api/v1/sessions/01S/processes/01P/signal", `{"signal":"SIGTERM"}`,
			&apiv1.SignalProcessRequest{SessionId: "01S", ProcessId: "01P", Signal: "SIGTERM"},
			&apiv1.SignalProcessResponse{}, 200, `{}`,
		},
		{
			"GET /api/v1/sessions/{session_id}/debug", "GET",
			"/api/v1/sessions/01S/debug?debug_session_id=dap_1&frame_id=2&output_from=7", "",
			&apiv1.GetDebugRequest{SessionId: "01S", DebugSessionId: "dap_1", FrameId: 2, OutputFrom: 7},
			&apiv1.GetDebugResponse{}, 200, `{"sessions":[],"debug":null}`,
		},
		{
			"POST /api/v1/sessions/{session_id}/debug", "POST", "/api/v1/sessions/01S/debug",
			`{"action":"evaluate","expression":"n","timeout":5}`,
			&apiv1.ControlDebugRequest{SessionId: "01S", Action: "evaluate", Expression: "n", Timeout: 5},
			&apiv1.ControlDebugResponse{Result: &commonv1.DebugVariable{Value: "4", Type: "int"}}, 200,
			`{"result":{"name":"","value":"4","type":"int"}}`,
		},
		{
			"GET /api/v1/sessions/{session_id}/approvals", "GET",
			"/api/v1/sessions/01S/approvals?state=pending&limit=2&cursor=c", "",
			&apiv1.ListApprovalsRequest{SessionId: "01S", State: "pending", Limit: 2, Cursor: "c"},
			&apiv1.ListApprovalsResponse{Items: []*apiv1.Approval{approval}},
			200, `{"items":[` + approvalJSON + `],"next_cursor":null,"has_more":false}`,
		},
		{
			"GET /api/v1/sessions/{session_id}/approvals/{approval_id}", "GET", "/api/v1/sessions/01S/approvals/01A", "",
			&apiv1.GetApprovalRequest{SessionId: "01S", ApprovalId: "01A"}, &apiv1.GetApprovalResponse{Approval: approval}, 200,
			approvalJSON,
		},
		{
			"POST /api/v1/sessions/{session_id}/approvals/{approval_id}", "POST", "/api/v1/sessions/01S/approvals/01A",
			`{"decision":"deny","comment":"no"}`,
			&apiv1.AnswerApprovalRequest{SessionId: "01S", ApprovalId: "01A", Decision: "deny", Comment: "no"},
			&apiv1.AnswerApprovalResponse{Approval: approval},
			200, approvalJSON,
		},
		{
			"GET /api/v1/sessions/{session_id}/prompts", "GET", "/api/v1/sessions/01S/prompts", "",
			&apiv1.ListSessionPromptsRequest{SessionId: "01S"}, &apiv1.ListSessionPromptsResponse{Items: []*apiv1.SessionPrompt{
				{AgentPath: "primary", Path: "p.md", Sha256: "ab", Text: "Hi."},
			}},
			200, `{"items":[{"agent_path":"primary","invocation_id":null,"path":"p.md","sha256":"ab","text":"Hi."}]}`,
		},
		{
			"GET /api/v1/sessions/{session_id}/invocations", "GET",
			"/api/v1/sessions/01S/invocations?run_id=01R&limit=2&cursor=c", "",
			&apiv1.ListInvocationsRequest{
				SessionId: "01S", RunId: "01R", Limit: 2,
				Cursor: "c",
			}, &apiv1.ListInvocationsResponse{Items: []*apiv1.SubagentInvocation{{
				InvocationId: "01I", RunId: "01R", ToolCallId: "c", Name: "writer", AgentPath: "primary.subagents.writer",
				State: "running", CageStatus: "caged", StartedAt: 1,
			}}},
			200,
			`{"items":[{"invocation_id":"01I","name":"writer","state":"running","run_id":"01R","parent_invocation_id":null,` +
				`"tool_call_id":"c",` +
				`"agent_path":"primary.subagents.writer","cage_status":"caged","exit":null,"steps":0,"tokens_in":0,` +
				`"tokens_out":0,"cost_usd":null,"started_at":1,` +
				`"ended_at":null,"error":null}],"next_cursor":null,"has_more":false}`,
		},
		{
			"GET /api/v1/sessions/{session_id}/invocations/{invocation_id}", "GET", "/api/v1/sessions/01S/invocations/01I", "",
			&apiv1.GetInvocationRequest{
				SessionId:    "01S",
				InvocationId: "01I",
			}, &apiv1.GetInvocationResponse{Invocation: invocation}, 200, invocationJSON,
		},
		{
			"POST /api/v1/sessions/{session_id}/invocations/{invocation_id}/cancel", "POST",
			"/api/v1/sessions/01S/invocations/01I/cancel", "",
			&apiv1.CancelInvocationRequest{
				SessionId:    "01S",
				InvocationId: "01I",
			}, &apiv1.CancelInvocationResponse{Invocation: invocation}, 200, invocationJSON,
		},
		{
			"GET /api/v1/sessions/{session_id}/ledger", "GET",
			"/api/v1/sessions/01S/ledger?agent_path=primary&kind=todo&limit=2&cursor=c", "",
			&apiv1.GetLedgerRequest{SessionId: "01S", AgentPath: "primary", Kind: "todo", Limit: 2, Cursor: "c"},
			&apiv1.GetLedgerResponse{Items: []*apiv1.LedgerItem{
				{Seq: 1, At: 2, RunId: "01R", Step: 3, AgentPath: "primary", Kind: "todo", Text: "t", Done: proto.Bool(false)},
				{
					Seq: 2, At: 2, RunId: "01R", Step: 3, AgentPath: "primary", Kind: "command", Command: "go test",
					ExitCode: proto.Int32(1),
				},
			}}, 200,
			`{"items":[{"seq":1,"at":2,"run_id":"01R","step":3,"agent_path":"primary","kind":"todo","text":"t","done":false},` +
				`{"seq":2,"at":2,"run_id":"01R","step":3,"agent_path":"primary","kind":"command","command":"go test",` +
				`"exit_code":1}],` +
				`"next_cursor":null,"has_more":false}`,
		},
		{
			"GET /api/v1/sessions/{session_id}/context-estimate", "GET",
			"/api/v1/sessions/01S/context-estimate?agent_path=primary", "",
			&apiv1.GetContextEstimateRequest{SessionId: "01S", AgentPath: "primary"},
			&apiv1.GetContextEstimateResponse{
				InputTokens: 10, ContextWindow: proto.Int64(100), Fraction: 0.3, Algorithm: "fallback", ReservedOutputTokens: 20,
				AgentPath: "primary",
			}, 200,
			`{"input_tokens":10,"context_window":100,"fraction":0.3,"algorithm":"fallback","reserved_output_tokens":20,` +
				`"agent_path":"primary","error_fraction":null}`,
		},
		{
			"POST /api/v1/sessions/{session_id}/compact", "POST", "/api/v1/sessions/01S/compact", `{"strategy":"drop"}`,
			&apiv1.CompactSessionRequest{SessionId: "01S", Strategy: proto.String("drop")},
			&apiv1.CompactSessionResponse{
				CompactionId: "cmp_1", SessionId: "01S", AgentPath: "primary", Trigger: "operator_manual", Strategy: "drop",
			}, 202,
			`{"compaction_id":"cmp_1","session_id":"01S","agent_path":"primary","trigger":"operator_manual",` +
				`"strategy":"drop","dry_run":false}`,
		},
		{
			"POST /api/v1/sessions/{session_id}/compactions/dry-run", "POST", "/api/v1/sessions/01S/compactions/dry-run", `{}`,
			&apiv1.ProposeCompactionRequest{SessionId: "01S"},
			&apiv1.ProposeCompactionResponse{Answer: &apiv1.CompactSessionResponse{
				SessionId: "01S", AgentPath: "primary", Trigger: "operator_manual", Strategy: "drop", DryRun: true,
				Proposed: &apiv1.ProposedCompaction{
					Trigger: "operator_manual", ThresholdEstimate: 0.9, AfterEstimate: 0.5, SupersededMessageIds: []string{"01M"},
					Messages: []*apiv1.ProposedMessage{{
						Id: "01M", Role: apiv1.MessageRole_MESSAGE_ROLE_OPERATOR,
						Action: "supersede",
					}},
				},
			}}, 200,
			`{"session_id":"01S","agent_path":"primary","trigger":"operator_manual","strategy":"drop","dry_run":true,` +
				`"proposed":` +
				`{"trigger":"operator_manual","threshold_estimate":0.9,"after_estimate":0.5,"superseded_message_ids":["01M"],` +
				`"summary_message":null,"plugins_fired":[],"messages":[{"id":"01M","role":"operator","action":"supersede"}],` +
				`"spans":[],"compactor_cost_usd":null}}`,
		},
		{
			"GET /api/v1/sessions/{session_id}/compactions", "GET",
			"/api/v1/sessions/01S/compactions?agent_path=primary&limit=2&cursor=c", "",
			&apiv1.ListCompactionsRequest{SessionId: "01S", AgentPath: "primary", Limit: 2, Cursor: "c"},
			&apiv1.ListCompactionsResponse{Items: []*apiv1.SessionCompaction{compacted}}, 200,
			`{"items":[` + compactedJSON + `],"next_cursor":null,"has_more":false}`,
		},
		{
			"GET /api/v1/sessions/{session_id}/compactions/{compaction_id}", "GET", "/api/v1/sessions/01S/compactions/cmp_1", "",
			&apiv1.GetCompactionRequest{SessionId: "01S", CompactionId: "cmp_1"},
			&apiv1.GetCompactionResponse{Compaction: compacted}, 200, compactedJSON,
		},
		{
			"PATCH /api/v1/sessions/{session_id}/compactions/{compaction_id}", "PATCH", "/api/v1/sessions/01S/compactions/cmp_1",
			`{"flag":"bad","notes":null}`,
			&apiv1.UpdateCompactionRequest{
				SessionId: "01S", CompactionId: "cmp_1", Flag: structpb.NewStringValue("bad"), Notes: structpb.NewNullValue(),
			},
			&apiv1.UpdateCompactionResponse{Compaction: compacted}, 200, compactedJSON,
		},
		{
			"POST /api/v1/sessions/{session_id}/compactions/{compaction_id}/undo", "POST",
			"/api/v1/sessions/01S/compactions/cmp_1/undo", "",
			&apiv1.UndoCompactionRequest{SessionId: "01S", CompactionId: "cmp_1"},
			&apiv1.UndoCompactionResponse{Compaction: compacted}, 200, compactedJSON,
		},
		{
			"PATCH /api/v1/sessions/{session_id}/messages/{message_id}", "PATCH", "/api/v1/sessions/01S/messages/01M",
			`{"always_keep":true}`,
			&apiv1.UpdateMessageRequest{SessionId: "01S", MessageId: "01M", AlwaysKeep: proto.Bool(true)},
			&apiv1.UpdateMessageResponse{Message: &apiv1.SessionMessage{
				Id: "01M", SessionId: "01S", Role: apiv1.MessageRole_MESSAGE_ROLE_OPERATOR, Content: "Hi.", AlwaysKeep: true,
			}}, 200,
			`{"id":"01M","session_id":"01S","role":"operator","content":"Hi.","created_at":0,"superseded":false,` +
				`"run_id":null,"always_keep":true}`,
		},
		{
			"GET /api/v1/audit", "GET", "/api/v1/audit?since=1&until=2&project_id=p&session=s&event_type=auth.*,x&limit=200", "",
			&apiv1.QueryAuditRequest{Since: 1, Until: 2, ProjectId: "p", Session: "s", EventType: "auth.*,x", Limit: 200},
			&apiv1.QueryAuditResponse{}, 200, emptyPage,
		},
	}...)
}

// compacted is a compaction, as JSON compactedJSON.
var compacted = &apiv1.SessionCompaction{
	Id: "cmp_1", SessionId: "01S", AgentPath: "primary", CreatedAt: 1, Trigger: "operator_manual", Strategy: "drop",
	ThresholdEstimate: 0.9, AfterEstimate: 0.5, SupersededCount: 2, Summary: "gone",
	Spans: []*apiv1.CompactionSpan{{MessageId: "01M", FromStep: 1, ToStep: 2}}, WindowTokens: 100, WindowUpper: 0.85,
	WindowLower: 0.6,
}

const compactedJSON = `{"id":"cmp_1","session_id":"01S","run_id":null,"agent_path":"primary","created_at":1,` +
	`"trigger":"operator_manual",` +
	`"strategy":"drop","threshold_estimate":0.9,"after_estimate":0.5,"superseded_count":2,"summary_message_id":null,` +
	`"summary":"gone",` +
	`"plugins_fired":[],"plugin_cost":null,"fallback_occurred":false,"fallback_reason":null,"operator_flag":null,` +
	`"operator_notes":null,` +
	`"spans":[{"message_id":"01M","from_step":1,"to_step":2}],"compactor_cost":null,"undone_at":null,` +
	`"window_tokens":100,` +
	`"window_upper":0.85,"window_lower":0.6,"duration_ms":0}`

// invocation is a call of an agent by another, as JSON invocationJSON.
var invocation = &apiv1.Invocation{
	InvocationId: "01I", RunId: "01R", ParentInvocationId: proto.String("01H"), ToolCallId: "c", Name: "writer",
	AgentPath: "p", State: "completed",
	CageStatus: "caged", Exit: proto.Int32(0), Steps: 1, TokensIn: 2, TokensOut: 3, CostUsd: proto.Float64(0.5),
	StartedAt: 1, EndedAt: proto.Int64(4),
	Prompt: "Write.", CagePolicy: &apiv1.InvocationCage{
		Fs:      []*apiv1.InvocationMount{{Mode: "ro", Path: "project:/"}},
		Seccomp: "default", State: "ephemeral",
	},
	Tools: []string{"file.read"},
}

const invocationJSON = `{"invocation_id":"01I","run_id":"01R","parent_invocation_id":"01H","tool_call_id":"c",` +
	`"name":"writer","agent_path":"p","state":"completed",` +
	`"cage_status":"caged","exit":0,"steps":1,"tokens_in":2,"tokens_out":3,"cost_usd":0.5,"started_at":1,"ended_at":4,` +
	`"error":null,"prompt":"Write.","output":"",` +
	`"cage_policy":{"fs":[{"mode":"ro","path":"project:/"}],"read_only":[],"net_allow":[],"seccomp":"default",` +
	`"capabilities":[],"state":"ephemeral","env":[],"git":""},` +
	`"tools":["file.read"],"files_changed":[],"run_steps":[]}`

// Every route of the contract has an exchange here (A-TEST-01), and the gateway has every route (A-URL-INDEX-01).
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

// Every route passes the client's request to session-manager, as the operator, and answers in the contract's shape
// (A-TEST-01, A-WIRE-CTYPE-02, A-WIRE-PAGE-01, A-MSG-POST-02, A-PROJ-LOAD-02, -03, A-SESS-NEW-01, A-HDR-OUT-04).
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
		if ct, cc := got.header.Get("Content-Type"),
			got.header.Get("Cache-Control"); ct != "application/json; charset=utf-8" || cc != "no-store" {
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

// A fault of session-manager reaches the client on every route with its status, code and details (A-TEST-01,
// A-TEST-07).
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

// A project that session-manager does not know has no issues: the service that keeps them is not asked. If-Match
// reaches it.
func TestIssuesOfAProject(t *testing.T) {
	t.Parallel()
	d := start(t, setup{})
	c := d.operator()
	d.manager.replies(&apiv1.ListIssuesResponse{}, nil)
	c.get("/api/v1/projects/unknown/issues").refused(t, "an unknown project", 404, "not_found")
	d.manager.with(func() {
		if len(d.manager.asked) != 0 {
			t.Errorf("the service was asked %v", d.manager.asked)
		}
		d.manager.answer = func(ctx context.Context, _ proto.Message) (proto.Message, error) {
			if got := metadata.ValueFromIncomingContext(ctx, "if-match"); len(got) != 1 || got[0] != `"7"` {
				t.Errorf("got If-Match %q, want the client's", got)
			}
			return &apiv1.UpdateIssueResponse{Issue: &apiv1.Issue{}}, nil
		}
	})
	c.header = http.Header{"If-Match": {`"7"`}}
	if got := c.do("PATCH", "/api/v1/projects/p/issues/1", `{"title":"x"}`); got.status != 200 {
		t.Errorf("got %d: %s", got.status, got.body)
	}
}

// An issue is assigned to declared workflows only, which session-manager knows. T-ISSUE-UPDATE-06.
func TestAssigningToAWorkflow(t *testing.T) {
	t.Parallel()
	d := start(t, setup{})
	c := d.operator()
	d.manager.replies(&apiv1.UpdateIssueResponse{Issue: &apiv1.Issue{}}, nil)
	assign := func(to string) answer {
		return c.do("PATCH", "/api/v1/projects/p/issues/1", `{"assignment":"`+to+`"}`)
	}
	assign("workflow:undeclared").refused(t, "an undeclared workflow", 400, "validation_failed")
	for _, to := range []string{"workflow:nightly", "primary", "session:01S"} {
		if got := assign(to); got.status != 200 {
			t.Errorf("%s: got %d: %s", to, got.status, got.body)
		}
	}
}

// An operator's edit of an issue is recorded with the changed fields; a request without effect is not. T-AUD-13.
func TestEditsOfIssuesAreRecorded(t *testing.T) {
	t.Parallel()
	d := start(t, setup{})
	c := d.operator()
	edit := func(fields ...string) string {
		d.manager.replies(&apiv1.UpdateIssueResponse{Issue: &apiv1.Issue{
			Id: "01I", ProjectId: "p", Number: 3, UpdatedFields: fields,
		}}, nil)
		got := c.do("PATCH", "/api/v1/projects/p/issues/3", `{"title":"x"}`)
		if got.status != 200 {
			t.Fatalf("got %d: %s", got.status, got.body)
		}
		return got.header.Get("X-Kaged-Request-Id")
	}
	unchanged := edit()
	r := d.manager.audited(t, edit("title", "body"))
	p := r.GetRecords()[0].GetPayload().AsMap()
	if fields := fmt.Sprint(p["updated_fields"]); r.GetRecords()[0].GetEventType() != "kaged.issue.updated" ||
		p["issue_id"] != "01I" || p["project_id"] != "p" || p["number"] != 3.0 || fields != "[title body]" ||
		p["caller"] != r.GetUserId() || r.GetUserId() == "" {
		t.Errorf("recorded %v", r)
	}
	d.manager.with(func() {
		for _, r := range d.manager.records {
			if r.GetRequestId() == unchanged {
				t.Errorf("an edit that changed no field was recorded: %v", r)
			}
		}
	})
}

// The answer to a load tells a project that is ready from one that is not or was known (A-PROJ-LOAD-03, -04, -09).
func TestLoadStatus(t *testing.T) {
	t.Parallel()
	d := start(t, setup{})
	c := d.operator()
	for _, x := range []struct {
		created bool
		state   apiv1.ProjectState
		status  int
	}{
		{true, apiv1.ProjectState_PROJECT_STATE_READY, 201},
		{false, apiv1.ProjectState_PROJECT_STATE_READY, 200},
		{true, apiv1.ProjectState_PROJECT_STATE_PENDING, 200},
	} {
		d.manager.replies(&apiv1.LoadProjectResponse{
			Created: x.created, Project: &apiv1.RegisteredProject{State: x.state},
		}, nil)
		if got := c.do("POST", "/api/v1/projects/load", `{"path":"/p"}`); got.status != x.status {
			t.Errorf("created %v, %v: %d", x.created, x.state, got.status)
		}
	}
}
