package server

import (
	"testing"
	"testing/quick"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/tool-runner/internal/core/dispatch"
	"kaged.dev/services/tool-runner/internal/core/project"
	"kaged.dev/services/tool-runner/internal/core/tool"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// Every field of a call is converted, with any value.
func TestCallFromProto(t *testing.T) {
	t.Parallel()
	same := func(id, name, input, grant string, from contract.Caller, policy dsl.Cage) bool {
		req := &toolrunnerv1.RunToolRequest{
			CallId: id,
			Tool:   name,
			Input:  input,
			Grant:  &toolrunnerv1.ToolGrant{Fingerprint: grant},
			Context: &toolrunnerv1.ToolContext{
				SessionId: from.SessionID, RunId: from.RunID, RequestId: from.RequestID, InvocationId: from.InvocationID,
				Caller: from.Agent, ProjectId: from.ProjectID,
				ProjectRoot: from.Root, OperatorId: from.OperatorID, Tools: from.Tools, KnowsFiles: from.KnowsFiles,
				CageId: from.CageID,
				Cage:   policy.Proto(), IssueNumber: from.Issue, ProjectCaged: from.ProjectCaged,
				LanguageServers: dsl.LanguageServersProto(from.LanguageServers), Debugging: from.Debugging.Proto(),
				ApproveWrites: from.ApproveWrites,
			},
		}
		if from.Job != nil {
			req.Context.Job = &toolrunnerv1.JobPolicy{Tools: from.Job.Tools}
		}
		from.Cage = dsl.CageFromProto(policy.Proto())
		// a missing list is an empty one
		from.LanguageServers = dsl.LanguageServersFromProto(req.GetContext().GetLanguageServers())
		from.Debugging = dsl.DebuggingFromProto(req.GetContext().GetDebugging())
		got := callFromProto(req)
		return got.ID == id && got.Name == name && string(got.Input) == input && got.Grant == grant &&
			cmp.Equal(got.From, from)
	}
	if err := quick.Check(same, nil); err != nil {
		t.Error(err)
	}
	if got := callFromProto(&toolrunnerv1.RunToolRequest{}); got.From.Cage != nil {
		t.Error("no cage became one")
	}
}

// A result has content, failure, records and time. Text that is not UTF-8 is made valid.
func TestResultToProto(t *testing.T) {
	t.Parallel()
	got := resultToProto(dispatch.Outcome{
		Result: tool.Result{
			Content: "{}",
			IsError: true,
		},
		Fault: fault.New(fault.FileBusy, "busy").With("path", "./a"), Tool: "x.y", Duration: 1500 * time.Millisecond,
		Records: []contract.Record{{Type: "tool.called", At: 12, Agent: "primary", Payload: map[string]any{
			"text": "a\xff", "bytes": int64(3), "count": 2, "ok": true,
			"params": map[string]any{"\xff": []any{"\xfe", nil, 1.5}},
		}}},
	})
	payload, err := structpb.NewStruct(map[string]any{
		"text": "a\uFFFD", "bytes": 3, "count": 2, "ok": true, "params": map[string]any{"\uFFFD": []any{"\uFFFD", nil, 1.5}},
	})
	if err != nil {
		t.Fatal(err)
	}
	details, err := structpb.NewStruct(map[string]any{"path": "./a"})
	if err != nil {
		t.Fatal(err)
	}
	want := &toolrunnerv1.RunToolEvent{Event: &toolrunnerv1.RunToolEvent_Result{Result: &toolrunnerv1.ToolResult{
		Content: "{}", Tool: "x.y", DurationMs: 1500, Error: &commonv1.Error{
			Code: commonv1.ErrorCode_ERROR_CODE_FILE_BUSY, Message: "busy", Details: details,
		},
		Audit: []*commonv1.AuditRecord{{EventType: "tool.called", Ts: 12, AgentPath: "primary", Payload: payload}},
	}}}
	if d := cmp.Diff(want, got, protocmp.Transform()); d != "" {
		t.Error(d)
	}
	if _, err := proto.Marshal(got); err != nil {
		t.Error(err)
	}
}

// A request for approval has all facts that the operator needs. Text that is not UTF-8 is made valid.
func TestApprovalToProto(t *testing.T) {
	t.Parallel()
	ask := &contract.Subject{
		Tool: "x.y", Agent: "primary", Reasons: []string{"why\xff"}, Command: "a\xfe", Cwd: "./b", Paths: []string{"./c\xff"},
		Preview: "+d",
	}
	got := resultToProto(
		dispatch.Outcome{
			Approval: ask,
			Records:  []contract.Record{{Type: "tool.called", At: 1, Payload: map[string]any{"a": []any{"\xff"}}}},
		},
	)
	payload, err := structpb.NewStruct(map[string]any{"a": []any{"\uFFFD"}})
	if err != nil {
		t.Fatal(err)
	}
	want := &toolrunnerv1.RunToolEvent{Event: &toolrunnerv1.RunToolEvent_Approval{Approval: &toolrunnerv1.ApprovalNeeded{
		Subject: &commonv1.ApprovalSubject{
			Tool: "x.y", AgentPath: "primary", Reasons: []string{"why\uFFFD"}, Command: "a\uFFFD", Cwd: "./b",
			Paths: []string{"./c\uFFFD"}, Preview: "+d",
		},
		Fingerprint: ask.Fingerprint(), Audit: []*commonv1.AuditRecord{{EventType: "tool.called", Ts: 1, Payload: payload}},
	}}}
	if d := cmp.Diff(want, got, protocmp.Transform()); d != "" {
		t.Error(d)
	}
	if _, err := proto.Marshal(got); err != nil {
		t.Error(err)
	}
}

// Every state and every category has its name in the protocol.
func TestEnumsAreComplete(t *testing.T) {
	t.Parallel()
	for _, s := range []project.State{project.Found, project.Missing, project.Unchanged, project.Refused} {
		if fileStates[s] == 0 {
			t.Errorf("state %d has no name", s)
		}
	}
	for _, c := range []tool.Category{tool.Read, tool.Write, tool.Admin} {
		if categories[c] == 0 {
			t.Errorf("category %d has no name", c)
		}
	}
}
