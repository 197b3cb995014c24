package gateway_test

import (
	"google.golang.org/protobuf/proto"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
)

// approvalsContract has the routes of approvals and API tokens.
func approvalsContract() []exchange {
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
	return []exchange{
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
	}
}
