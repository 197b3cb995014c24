package server

import (
	"encoding/json"
	"strings"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/structs"
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

func resultToProto(o dispatch.Outcome) *toolrunnerv1.RunToolEvent {
	if o.Approval != nil {
		return approvalToProto(o)
	}
	result := &toolrunnerv1.ToolResult{
		Content: o.Result.Content, Error: o.Fault.Proto(), Tool: o.Tool, DurationMs: o.Duration.Milliseconds(),
		CageOver: o.CageOver, Audit: recordsToProto(o.Records),
	}
	return &toolrunnerv1.RunToolEvent{Event: &toolrunnerv1.RunToolEvent_Result{Result: result}}
}

func approvalToProto(o dispatch.Outcome) *toolrunnerv1.RunToolEvent {
	a := o.Approval
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
		Fingerprint: a.Fingerprint(), Audit: recordsToProto(o.Records),
	}}}
}

func recordsToProto(records []audit.Record) []*commonv1.AuditRecord {
	list := make([]*commonv1.AuditRecord, len(records))
	for i, r := range records {
		list[i] = recordToProto(r)
	}
	return list
}

func recordToProto(r audit.Record) *commonv1.AuditRecord {
	return &commonv1.AuditRecord{EventType: r.Type, Ts: r.At, AgentPath: r.Agent, Payload: structs.Of(r.Payload)}
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
