package gateway_test

import (
	"google.golang.org/protobuf/proto"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
)

// runsContract has the routes of runs, their processes, debuggers and invocations, and of spend.
func runsContract() []exchange {
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
	return []exchange{
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
	}
}
