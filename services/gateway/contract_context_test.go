package gateway_test

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// contextContract has the routes of a session's context and of its compactions. The list of compactions has
// has_more (A-CONTRA-12).
func contextContract() []exchange {
	return []exchange{
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
	}
}
