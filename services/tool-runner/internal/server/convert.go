package server

import (
	"strings"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/contract/toolwire"
	"kaged.dev/services/tool-runner/internal/core/dispatch"
	"kaged.dev/services/tool-runner/internal/core/project"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

//convert:one projectFromProto *toolrunnerv1.ReadProjectRequest project.Request

//convert:import json "encoding/json"
//convert:import toolwire "kaged.dev/pkg/contract/toolwire"
//convert:one callFromProto *toolrunnerv1.RunToolRequest *tool.Call CallId=ID Tool=Name
//convert:with >Input=json.RawMessage(in.GetInput()) >From=toolwire.FromCaller(in.GetContext())
//convert:with >Grant=in.GetGrant().GetFingerprint()
//convert:with >Emit=- >Params=- >Space=- >Access=- >Needs=- >Paths=- >Hold=- >System=- >Changed=- >Acted=- >CageOver=-
//convert:with >Records=-

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
		Content: o.Result.Content, Error: o.Fault.Proto(), Tool: o.Tool, DurationMs: contract.WholeMS(o.Duration),
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
