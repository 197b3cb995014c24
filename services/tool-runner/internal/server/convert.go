package server

import (
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	"kaged.dev/pkg/dsl"
	"kaged.dev/services/tool-runner/internal/core/audit"
	"kaged.dev/services/tool-runner/internal/core/dispatch"
	"kaged.dev/services/tool-runner/internal/core/project"
	"kaged.dev/services/tool-runner/internal/core/tool"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

func callFromProto(req *toolrunnerv1.RunToolRequest) *tool.Call {
	return &tool.Call{
		ID: req.GetCallId(), Name: req.GetTool(), Input: json.RawMessage(req.GetInput()), From: callerFromProto(req.GetContext()),
		Grant: req.GetGrant().GetFingerprint(),
	}
}

func callerFromProto(c *toolrunnerv1.ToolContext) tool.Caller {
	var job *tool.Job
	if c.GetJob() != nil {
		job = &tool.Job{Tools: c.GetJob().GetTools()}
	}
	return tool.Caller{
		SessionID: c.GetSessionId(), RunID: c.GetRunId(), RequestID: c.GetRequestId(), Agent: c.GetCaller(),
		ProjectID: c.GetProjectId(), Root: c.GetProjectRoot(), OperatorID: c.GetOperatorId(),
		Cage: dsl.CageFromProto(c.GetCage()), CageID: c.GetCageId(), Tools: c.GetTools(), KnowsFiles: c.GetKnowsFiles(),
		Job: job,
	}
}

func outputToProto(stream, text string) *toolrunnerv1.RunToolEvent {
	return &toolrunnerv1.RunToolEvent{Event: &toolrunnerv1.RunToolEvent_Output{
		Output: &toolrunnerv1.ToolOutput{Stream: stream, Text: text},
	}}
}

func resultToProto(o dispatch.Outcome) (*toolrunnerv1.RunToolEvent, error) {
	if o.Approval != nil {
		return approvalToProto(o)
	}
	result := &toolrunnerv1.ToolResult{
		Content: o.Result.Content, Error: o.Fault.Proto(), Tool: o.Tool, DurationMs: o.Duration.Milliseconds(),
		CageOver: o.CageOver,
	}
	var err error
	result.Audit, err = recordsToProto(o.Records)
	return &toolrunnerv1.RunToolEvent{Event: &toolrunnerv1.RunToolEvent_Result{Result: result}}, err
}

func approvalToProto(o dispatch.Outcome) (*toolrunnerv1.RunToolEvent, error) {
	a := o.Approval
	records, err := recordsToProto(o.Records)
	valid := func(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
	list := func(texts []string) []string {
		out := make([]string, len(texts))
		for i, t := range texts {
			out[i] = valid(t)
		}
		return out
	}
	return &toolrunnerv1.RunToolEvent{Event: &toolrunnerv1.RunToolEvent_Approval{Approval: &toolrunnerv1.ApprovalNeeded{
		Subject: &commonv1.ApprovalSubject{
			Tool: a.Tool, AgentPath: a.Agent, Reasons: list(a.Reasons), Command: valid(a.Command), Cwd: valid(a.Cwd), Paths: list(a.Paths),
			Preview: valid(a.Preview),
		},
		Fingerprint: a.Fingerprint(), Audit: records,
	}}}, err
}

func recordsToProto(records []audit.Record) ([]*commonv1.AuditRecord, error) {
	list := make([]*commonv1.AuditRecord, len(records))
	for i, r := range records {
		var err error
		if list[i], err = recordToProto(r); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func recordToProto(r audit.Record) (*commonv1.AuditRecord, error) {
	payload, err := structpb.NewStruct(validStrings(r.Payload).(map[string]any))
	if err != nil {
		return nil, fmt.Errorf("audit record %s: %w", r.Type, err)
	}
	return &commonv1.AuditRecord{EventType: r.Type, Ts: r.At, AgentPath: r.Agent, Payload: payload}, nil
}

// validStrings returns value with invalid UTF-8 replaced, which a Struct cannot hold.
func validStrings(value any) any {
	switch v := value.(type) {
	case string:
		return strings.ToValidUTF8(v, "\uFFFD")
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = validStrings(v[i])
		}
		return list
	case map[string]any:
		fields := make(map[string]any, len(v))
		for k := range v {
			fields[strings.ToValidUTF8(k, "\uFFFD")] = validStrings(v[k])
		}
		return fields
	}
	return value
}

func projectFromProto(req *toolrunnerv1.ReadProjectRequest) project.Request {
	return project.Request{Root: req.GetRoot(), Paths: req.GetPaths(), Known: req.GetKnown(), MaxBytes: req.GetMaxBytes()}
}

var fileStates = map[project.State]toolrunnerv1.FileState{
	project.Found:     toolrunnerv1.FileState_FILE_STATE_FOUND,
	project.Missing:   toolrunnerv1.FileState_FILE_STATE_MISSING,
	project.Unchanged: toolrunnerv1.FileState_FILE_STATE_UNCHANGED,
	project.Refused:   toolrunnerv1.FileState_FILE_STATE_REFUSED,
}

func projectToProto(root string, files []project.File) *toolrunnerv1.ReadProjectResponse {
	resp := &toolrunnerv1.ReadProjectResponse{Root: root}
	for _, f := range files {
		resp.Files = append(resp.Files, &toolrunnerv1.ProjectFile{
			Path: f.Path, State: fileStates[f.State], Content: f.Content, Sha256: f.SHA256,
			Reason: strings.ToValidUTF8(f.Reason, "\uFFFD"),
		})
	}
	return resp
}
