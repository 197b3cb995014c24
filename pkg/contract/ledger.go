package contract

import (
	"slices"

	"kaged.dev/pkg/fault"
)

// LedgerKind is the kind of an entry of a session's ledger.
type LedgerKind string

// The kinds. The last four are those of notes of agents; LedgerDone refers to a todo.
const (
	LedgerFileRead    LedgerKind = "file_read"
	LedgerFileChanged LedgerKind = "file_changed"
	LedgerCommand     LedgerKind = "command"
	LedgerDenied      LedgerKind = "denied"
	LedgerDecision    LedgerKind = "decision"
	LedgerTodo        LedgerKind = "todo"
	LedgerDone        LedgerKind = "done"
	LedgerFailed      LedgerKind = "failed"
)

// LedgerKinds are the kinds that the API shows.
var LedgerKinds = []LedgerKind{
	LedgerFileRead, LedgerFileChanged, LedgerCommand, LedgerDenied, LedgerDecision, LedgerTodo, LedgerFailed,
}

// LedgerEntry is an entry of a session's ledger. Secrets in its texts are masked.
type LedgerEntry struct {
	// Seq is its number in the session, from 1.
	Seq int64
	At  int64
	// RunID, InvocationID, Agent and Step are its origin; InvocationID is "" for the root agent.
	RunID, InvocationID, Agent string
	Step                       int
	Kind                       LedgerKind
	// Path and SHA256 belong to a file; SHA256 is empty for a removed file.
	Path, SHA256 string
	// Command is a command line; ExitCode is nil if it is unknown.
	Command  string
	ExitCode *int
	// Text is a note, or the cause of a refusal or a failure. Ref is the number of the todo that a LedgerDone refers to.
	Text string
	Ref  int64
	// Done is true for a todo that a note has called done.
	Done bool
}

// Ledger is the part of a session's ledger that is sent to a run.
type Ledger struct {
	// Seq is the number of the last entry.
	Seq int64
	// Entries are the relevant entries, in order.
	Entries []LedgerEntry
}

// LedgerOf returns the entries of a tool call, without numbers: one for each relevant record, and one for its failure.
func LedgerOf(tool string, failure *fault.Error, records []Record) []LedgerEntry {
	var out []LedgerEntry
	told := false
	for _, r := range records {
		e := LedgerEntry{At: r.At, Agent: r.Agent}
		field := func(name string) string { s, _ := r.Payload[name].(string); return s }
		switch r.Type {
		case FileRead, FileWritten, FileEdited:
			e.Kind, e.Path, e.SHA256 = LedgerFileChanged, field("path"), field("sha256")
			if r.Type == FileRead {
				e.Kind = LedgerFileRead
			}
			if to := field("moved_to"); to != "" {
				out = append(out, LedgerEntry{At: r.At, Agent: r.Agent, Kind: e.Kind, Path: e.Path, Text: "moved to " + to})
				e.Path = to
			}
		case "shell.executed":
			e.Kind, e.Command, e.ExitCode = LedgerCommand, field("command"), whole(r.Payload["exit_code"])
			e.Text = field("error_code")
			told = true
		case "tool.denied":
			e.Kind, e.Text = LedgerDenied, tool
			if needs := field("denied_capability"); needs != "" {
				e.Text += ": " + needs
			}
			told = true
		case NoteTaken:
			e.Kind, e.Text = LedgerKind(field("kind")), field("text")
			if n := whole(r.Payload["ref"]); n != nil {
				e.Ref = int64(*n)
			}
		default:
			continue
		}
		out = append(out, e)
	}
	if failure == nil || told || len(records) == 0 {
		return out
	}
	last := LedgerEntry{At: records[0].At, Agent: records[0].Agent, Kind: LedgerFailed, Text: tool + ": " + failure.Msg}
	if slices.Contains([]fault.Code{fault.ApprovalDenied, fault.ApprovalExpired}, failure.Code) {
		last.Kind = LedgerDenied
	}
	return append(out, last)
}

// whole returns an integer from a record, nil if there is none.
func whole(v any) *int {
	var n int
	switch v := v.(type) {
	case int:
		n = v
	case int64:
		n = int(v)
	case float64:
		n = int(v)
	default:
		return nil
	}
	return &n
}
