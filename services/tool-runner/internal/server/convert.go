package server

import (
	"encoding/json"
	"strings"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/contract/toolwire"
	"kaged.dev/services/tool-runner/internal/core/dispatch"
	"kaged.dev/services/tool-runner/internal/core/project"
	"kaged.dev/services/tool-runner/internal/core/tool"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

//convert:one projectFromProto *toolrunnerv1.ReadProjectRequest project.Request

func callFromProto(req *toolrunnerv1.RunToolRequest) *tool.Call {
	return &tool.Call{
		ID: req.GetCallId(), Name: req.GetTool(), Input: json.RawMessage(req.GetInput()),
		From: toolwire.FromCaller(req.GetContext()), Grant: req.GetGrant().GetFingerprint(),
	}
}

func outputToProto(stream, text string) *toolrunnerv1.RunToolEvent {
	return &toolrunnerv1.RunToolEvent{Event: &toolrunnerv1.RunToolEvent_Output{
		Output: &toolrunnerv1.ToolOutput{Stream: stream, Text: text},
	}}
}

func resultToProto(o dispatch.Outcome) *toolrunnerv1.RunToolEvent {
	if o.Approval != nil {
		question := contract.Question{Subject: *o.Approval, Fingerprint: o.Approval.Fingerprint()}
		return toolwire.Question(question, o.Records)
	}
	result := &toolrunnerv1.ToolResult{
		Content: o.Result.Content, Error: o.Fault.Proto(), Tool: o.Tool, DurationMs: o.Duration.Milliseconds(),
		CageOver: o.CageOver, Audit: contract.RecordsProto(o.Records),
	}
	return &toolrunnerv1.RunToolEvent{Event: &toolrunnerv1.RunToolEvent_Result{Result: result}}
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
