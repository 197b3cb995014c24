package contract

import (
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/redact"
)

// The records of tool calls.
const (
	ToolCalled    = "tool.called"
	ToolCompleted = "tool.completed"
)

// The records of files changed by tools. Each has the file's path as written in results, and moved_to for a moved file.
const (
	FileWritten = "file.written"
	FileEdited  = "file.edited"
)

// FileRead is the record of a file whose content a tool returned, with its path as written in results. It and the
// records of changed files have the SHA-256 of the content as sha256, if it is known.
const FileRead = "file.read"

// NoteTaken is the record of an agent's note, with its kind, its text and the number it refers to.
const NoteTaken = "kaged.note"

// FilesChanged returns the paths of changed files in records, in their order.
func FilesChanged(records []Record) (paths []string) {
	for _, r := range records {
		if r.Type != FileWritten && r.Type != FileEdited {
			continue
		}
		for _, key := range []string{"path", "moved_to"} {
			if path, ok := r.Payload[key].(string); ok && path != "" {
				paths = append(paths, path)
			}
		}
	}
	return paths
}

// Record is a line of the append-only record.
type Record struct {
	// Type is the event, such as tool.called.
	Type string
	At   int64
	// Agent is the agent it is about.
	Agent string
	// Payload holds plain JSON values, masked and shortened.
	Payload map[string]any
}

// NewRecord returns a record with the current time.
func NewRecord(event, agent string, payload map[string]any) Record {
	return Record{Type: event, At: time.Now().UnixMilli(), Agent: agent, Payload: payload}
}

// Size is the approximate size of the record in bytes.
func (r Record) Size() int { return len(r.Type) + len(r.Agent) + redact.Length(r.Payload) }

// A value without a JSON form is written as its text.
//
//convert:both .Proto RecordFromProto Record *commonv1.AuditRecord Type=EventType At=Ts Agent=AgentPath
//convert:with >Payload=structs.Of(in.Payload) <Payload=in.Payload.AsMap()
//convert:both RecordsProto RecordsFromProto []Record []*commonv1.AuditRecord >list <list
//convert:import structs "kaged.dev/pkg/structs"

// CalledFields is the payload of tool.called: its tool, and its parameters as [redact.Params] returns them.
func CalledFields(tool string, params any) map[string]any {
	return map[string]any{"tool_name": tool, "params": params}
}

// CompletedFields is the payload of tool.completed: its tool, its duration, and the code of a non-nil err.
func CompletedFields(tool string, took time.Duration, err error) map[string]any {
	fields := map[string]any{"tool_name": tool, "duration_ms": took.Milliseconds(), "success": err == nil}
	if err != nil {
		fields["error_code"] = fault.CodeOf(err).String()
	}
	return fields
}
