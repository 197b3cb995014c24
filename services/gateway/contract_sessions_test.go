package gateway_test

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// sessionsContract has the routes of sessions, their messages and prompts, and the audit log.
func sessionsContract() []exchange {
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
	return []exchange{
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
				`"matched_message_id":"01M","last_run":null}],"next_cursor":null,"has_more":false}`,
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
			"GET /api/v1/sessions/{session_id}/prompts", "GET", "/api/v1/sessions/01S/prompts", "",
			&apiv1.ListSessionPromptsRequest{SessionId: "01S"}, &apiv1.ListSessionPromptsResponse{Items: []*apiv1.SessionPrompt{
				{AgentPath: "primary", Path: "p.md", Sha256: "ab", Text: "Hi."},
			}},
			200, `{"items":[{"agent_path":"primary","invocation_id":null,"path":"p.md","sha256":"ab","text":"Hi."}]}`,
		},
		{
			"GET /api/v1/audit", "GET", "/api/v1/audit?since=1&until=2&project_id=p&session=s&event_type=auth.*,x&limit=200", "",
			&apiv1.QueryAuditRequest{Since: 1, Until: 2, ProjectId: "p", Session: "s", EventType: "auth.*,x", Limit: 200},
			&apiv1.QueryAuditResponse{}, 200, emptyPage,
		},
	}
}
