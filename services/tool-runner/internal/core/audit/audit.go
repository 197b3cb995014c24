// Package audit makes the records of tool calls: what was called by whom with what, and what came of it. Records are
// returned with the call's result and stored by session-manager; nothing here is kept.
//
// What a record shows is bounded and masked, see [kaged.dev/pkg/redact].
package audit

import (
	"time"

	"kaged.dev/pkg/redact"
)

// The events of tool calls.
const (
	ToolCalled    = "tool.called"
	ToolCompleted = "tool.completed"
	ToolDenied    = "tool.denied"
	FileWritten   = "file.written"
	FileEdited    = "file.edited"
	ShellExecuted = "shell.executed"
	// A background process has been started; shell.executed follows when a call learns of its end or its session ends, or that it
	// was lost.
	ProcessStarted = "process.started"
	ProcessLost    = "process.lost"
	// CageFound is what was made in a cage that nobody held any more, and that tools outside run.
	CageFound = "cage.found"
	// ApprovalRequested is a call that waits for an operator; session-manager records the answer.
	ApprovalRequested = "tool.approval.requested"
)

// Record is one line of the append-only record.
type Record struct {
	// Type is the event, At when it happened in milliseconds since the Unix epoch.
	Type string
	At   int64
	// Agent is the tree path of the agent it is about.
	Agent string
	// Payload is what happened, of plain JSON types.
	Payload map[string]any
}

// Size is about how many bytes the record takes.
func (r *Record) Size() int { return len(r.Type) + len(r.Agent) + redact.Length(r.Payload) }

// Command is how a command fared, as shell.executed records it.
type Command struct {
	// Line is what was run, shortened and masked, and Cwd where.
	Line, Cwd string
	// ExitCode is nil where nobody knows how it ended.
	ExitCode *int
	TimedOut bool
	// Timeout is how long it might run, Duration how long it did.
	Timeout, Duration time.Duration
	// Process is the background process it was and Killed the limit of its cage that ended it, "" for none. Failure is the
	// code of what its call failed with, "" if it did not.
	Process, Killed, Failure string
}

// Fields are the payload of a record about it.
func (c Command) Fields() map[string]any {
	fields := map[string]any{
		"command": c.Line, "cwd": c.Cwd, "timed_out": c.TimedOut, "timeout_ms": c.Timeout.Milliseconds(), "duration_ms": c.Duration.Milliseconds(),
	}
	if c.ExitCode != nil {
		fields["exit_code"] = *c.ExitCode
	}
	for name, value := range map[string]string{"process_id": c.Process, "killed": c.Killed, "error_code": c.Failure} {
		if value != "" {
			fields[name] = value
		}
	}
	return fields
}
