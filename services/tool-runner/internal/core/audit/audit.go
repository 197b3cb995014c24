// Package audit makes the records of tool calls: tool, caller, parameters and outcome. Records are returned with the
// call's result and stored by session-manager; this package does not store them.
//
// The texts in a record are limited and masked, see [kaged.dev/pkg/redact].
package audit

import (
	"time"

	"kaged.dev/pkg/contract"
)

// The events of tool calls.
const (
	ToolCalled    = contract.ToolCalled
	ToolCompleted = contract.ToolCompleted
	ToolDenied    = "tool.denied"
	FileRead      = contract.FileRead
	FileWritten   = contract.FileWritten
	FileEdited    = contract.FileEdited
	ShellExecuted = "shell.executed"
	// ProcessStarted records the start of a background process. shell.executed follows when a call gets its end, when its
	// session ends, or when it was lost.
	ProcessStarted = "process.started"
	ProcessLost    = "process.lost"
	// CageFound lists files made by a cage that tools outside it run: the cage of one command, or a cage without a holder
	// at its end.
	CageFound = "cage.found"
	// Changes of issues and todos by agents.
	IssueCreated      = "kaged.issue.created"
	IssueCommented    = "kaged.issue.commented"
	IssueTransitioned = "kaged.issue.transitioned"
	TodoSet           = "kaged.todo.set"
	TodoAdded         = "kaged.todo.added"
	TodoStarted       = "kaged.todo.started"
	TodoCompleted     = "kaged.todo.completed"
	TodoDropped       = "kaged.todo.dropped"
	TodoNoted         = "kaged.todo.noted"
	// NoteTaken is a note of an agent about its work.
	NoteTaken = contract.NoteTaken
	// ApprovalRequested is a call that waits for an operator; session-manager records the answer.
	ApprovalRequested = "tool.approval.requested"
)

// Command is the outcome of a command for shell.executed.
type Command struct {
	// Line is the command, shortened and masked, and Cwd its folder.
	Line, Cwd string
	// ExitCode is nil if the end is unknown.
	ExitCode *int
	TimedOut bool
	// Timeout is the time limit, Duration the actual time.
	Timeout, Duration time.Duration
	// Process is the background process, and Killed the cage's limit that ended it; both may be "". Failure is the error
	// code of its call, "" on success.
	Process, Killed, Failure string
}

// Found is the payload of a cage.found record.
func Found(found []contract.Finding) map[string]any {
	list := make([]any, len(found))
	for i, f := range found {
		list[i] = map[string]any{"kind": f.Kind, "path": f.Path, "text": f.Text}
	}
	return map[string]any{"level": "warning", "found": list}
}

// Fields are the payload of its record.
func (c Command) Fields() map[string]any {
	fields := map[string]any{
		"command": c.Line, "cwd": c.Cwd, "timed_out": c.TimedOut, "timeout_ms": c.Timeout.Milliseconds(),
		"duration_ms": c.Duration.Milliseconds(),
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
