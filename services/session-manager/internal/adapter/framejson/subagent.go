package framejson

import (
	"kaged.dev/pkg/wirejson"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/session-manager/internal/sessions/core/frames"
)

// filesShare bounds the paths of changed files in a frame.
const filesShare = 64 << 10

// appendSubagentOutput builds the JSON of frequent frames directly; a test compares it with wirejson.
func appendSubagentOutput(dst []byte, p frames.SubagentOutput) []byte {
	dst = wirejson.AppendString(append(dst, `{"invocation_id":`...), p.InvocationID)
	dst = wirejson.AppendString(append(dst, `,"stream":`...), name(p.Stream))
	dst = wirejson.AppendString(append(dst, `,"kind":`...), p.Part)
	dst = wirejson.AppendString(append(dst, `,"text":`...), p.Text)
	if p.ToolCallID != "" {
		dst = wirejson.AppendString(append(dst, `,"tool_call_id":`...), name(p.ToolCallID))
	}
	return append(dst, '}')
}

func appendSubagentCall(dst []byte, p frames.SubagentToolCall) ([]byte, error) {
	m := &apiv1.SubagentToolCall{InvocationId: p.InvocationID, Id: name(p.Call.ID), Name: name(p.Call.Name)}
	return appendInput(dst, m, &m.Input, &m.Truncated, p.Call.Input)
}

func appendSubagentResult(dst []byte, p frames.SubagentToolResult) ([]byte, error) {
	m := &apiv1.SubagentToolResult{
		InvocationId: p.InvocationID, ToolCallId: name(p.Result.CallID), Name: name(p.Result.Name),
		Output:  cut(p.Result.Content, outputShare),
		IsError: p.Result.IsError, DurationMs: p.Result.DurationMS,
	}
	m.Truncated = len(m.GetOutput()) < len(p.Result.Content)
	return wirejson.Append(dst, m)
}

// fitting returns the first paths of a list, as many as filesShare allows.
func fitting(paths []string) []string {
	room := filesShare
	for i, path := range paths {
		if room -= 6*len(path) + 3; room < 0 {
			return paths[:i]
		}
	}
	return paths
}
