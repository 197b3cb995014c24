package workbench

import (
	"os"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/wirejson"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// AuditFile is the name of the record of calls made without a daemon, in the data directory.
const AuditFile = "audit-cli.jsonl"

// Audit is the append-only record of calls made without a daemon, with one record per line.
type Audit struct{ file *os.File }

// OpenAudit opens the record of a data directory, and creates it if necessary. It fails with audit_failed.
func OpenAudit(dataDir string) (*Audit, error) {
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return nil, fault.Wrap(
			err,
			fault.AuditFailed,
			"The data directory %s cannot be made; choose another with --data-dir.",
			dataDir,
		)
	}
	file, err := os.OpenFile(filepath.Join(dataDir, AuditFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fault.Wrap(
			err,
			fault.AuditFailed,
			"The record of calls in %s cannot be written; choose another data directory with --data-dir.",
			dataDir,
		)
	}
	return &Audit{file}, nil
}

// Append adds records in one write, so that records of simultaneous commands do not mix.
func (a *Audit) Append(records []*commonv1.AuditRecord) error {
	var lines []byte
	for _, r := range records {
		line, err := wirejson.Marshal(r)
		if err != nil {
			return fault.Wrap(err, fault.AuditFailed, "The record %s cannot be written.", r.GetEventType())
		}
		lines = append(append(lines, line...), '\n')
	}
	if _, err := a.file.Write(lines); err != nil {
		return fault.Wrap(err, fault.AuditFailed, "The record of calls cannot be written.")
	}
	return nil
}

// decision returns the record of an operator's answer, given or assumed; refused is nil for a yes.
func decision(as Caller, req *toolrunnerv1.RunToolRequest, refused error) *commonv1.AuditRecord {
	event, fields := "tool.approval.granted", map[string]*structpb.Value{
		"call_id": structpb.NewStringValue(req.GetCallId()), "tool_name": structpb.NewStringValue(req.GetTool()),
		"session_id": structpb.NewStringValue(
			req.GetContext().GetSessionId(),
		), "operator_id": structpb.NewStringValue(operator),
	}
	if refused != nil {
		event = "tool.approval.denied"
		fields["error_code"] = structpb.NewStringValue(fault.CodeOf(refused).String())
	}
	return &commonv1.AuditRecord{
		EventType: event, Ts: time.Now().UnixMilli(), AgentPath: as.Agent, Payload: &structpb.Struct{Fields: fields},
	}
}

// Close closes the file.
func (a *Audit) Close() { a.file.Close() }
