package logs

import (
	"fmt"
	"log/slog"
	"maps"
	"strings"

	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
)

// Teller logs committed changes. It never waits.
type Teller struct{ To *Collector }

// Created logs a new session.
func (t Teller) Created(s record.Session) {
	t.To.Take(about(s, slog.LevelInfo, "Session created.", nil))
}

// Changed logs a committed change. after is the session with the change.
func (t Teller) Changed(after record.Session, c record.Change) {
	for _, run := range []*record.Run{c.NewRun, c.StartRun} {
		if run != nil && run.State == record.RunRunning {
			t.To.Take(about(after, slog.LevelInfo, "Run started.", map[string]any{"run_id": run.ID}))
		}
	}
	t.Audited(c.Audit...)
}

// Audited logs stored audit records, except types without an entry in lines.
func (t Teller) Audited(records ...audit.Record) {
	for _, r := range records {
		if e, ok := Line(r); ok {
			t.To.Take(e)
		}
	}
}

func about(s record.Session, level slog.Level, message string, facts map[string]any) Entry {
	return Entry{
		Owner: s.Owner, ProjectID: s.ProjectID, SessionID: s.ID, Level: level, Source: Session, Message: message,
		Context: facts,
	}
}

// line is the form of an audit record in the log.
type line struct {
	level slog.Level
	// text is a sentence without its full stop; details are keys of the payload that are appended to it.
	text    string
	details []string
}

const (
	info    = slog.LevelInfo
	warn    = slog.LevelWarn
	failure = slog.LevelError
)

// lines has the line of each logged type of audit record. Successful tool calls are not logged: there are
// thousands.
var lines = map[string]line{
	"session.ended":               {info, "Session ended", nil},
	"session.updated":             {info, "Session changed", nil},
	"run.queued":                  {info, "Run queued", []string{"reason"}},
	"run.resumed":                 {info, "Interrupted run resumed", nil},
	"run.not_resumed":             {warn, "Interrupted run not resumed", []string{"error_message", "reason"}},
	"run.cancel_requested":        {info, "Cancellation requested", nil},
	"message.discarded":           {info, "Queued message discarded", nil},
	"prompt.reloaded":             {info, "Prompt reloaded", []string{"path"}},
	"prompt.held":                 {warn, "Changed prompt held back until approval", []string{"path"}},
	"tool.interrupted":            {warn, "Tool call interrupted", []string{"tool_name"}},
	"tool.denied":                 {warn, "Tool call denied", []string{"tool_name"}},
	"tool.approval.requested":     {info, "Approval requested", []string{"tool_name"}},
	"tool.approval.granted":       {info, "Approval granted", []string{"tool_name"}},
	"tool.approval.denied":        {info, "Approval denied", []string{"tool_name"}},
	"tool.approval.expired":       {warn, "Approval expired", []string{"tool_name"}},
	"approval.standing_granted":   {info, "Standing approval granted", nil},
	"approval.standing_revoked":   {info, "Standing approval revoked", nil},
	"delegation.started":          {info, "Agent started", []string{"subagent"}},
	"delegation.completed":        {info, "Agent ended", []string{"subagent", "outcome", "error_code"}},
	"delegation.cancel_requested": {info, "Cancellation of an agent requested", nil},
	"budget.refused":              {warn, "Model call refused by a budget", []string{"reason"}},
	"loop.detected":               {warn, "Agent repeats itself", nil},
	"agent.policy_modified":       {info, "Request changed by the policy", nil},
	"agent.turn_retracted":        {warn, "Answer of the model broke off", []string{"error_code"}},
	"compaction.completed":        {info, "Conversation compacted", nil},
	"compaction.failed":           {failure, "Compaction failed", []string{"reason"}},
	"compaction.undone":           {info, "Compaction undone", nil},
	"cage.opened":                 {info, "Cage opened", nil},
	"cage.found":                  {warn, "Cage left files that tools outside it may run", nil},
	"subagent.spawn.uncaged":      {warn, "Agent works without a cage", nil},
	"net.denied":                  {warn, "Connection of a cage refused", []string{"target"}},
	"net.omitted":                 {info, "Further connections of a cage are only counted", nil},
	"process.started":             {info, "Background process started", []string{"command"}},
	"process.lost":                {warn, "Background process lost", []string{"command"}},
	"process.signaled":            {info, "Signal sent to a background process", []string{"signal"}},
	"debug.session_started":       {info, "Debug session started", nil},
	"debug.session_ended":         {info, "Debug session ended", []string{"reason"}},
	"project.loaded":              {info, "Project loaded", nil},
	"project.reloaded":            {info, "Project reloaded", []string{"state"}},
	"project.labelled":            {info, "Project renamed", nil},
	"project.approved":            {info, "Project file approved", nil},
	"project.approval_required":   {warn, "Project file widens rights; approval required", nil},
}

// Line returns the log entry of an audit record, false for a type without one.
func Line(r audit.Record) (Entry, bool) {
	l, known := lines[r.EventType]
	switch r.EventType {
	case "run.ended":
		l, known = ended(r.Payload), true
	case "cage.ended":
		l, known = cageEnded(r.Payload), true
	}
	if !known {
		return Entry{}, false
	}
	e := Entry{
		ID: r.ID, TS: r.TS, Level: l.level, Source: Daemon, Owner: r.UserID, ProjectID: r.ProjectID, SessionID: r.SessionID,
		Message: l.sentence(r.Payload), Context: maps.Clone(r.Payload),
	}
	if e.Context == nil {
		e.Context = map[string]any{}
	}
	e.Context["event_type"] = r.EventType
	if r.SessionID != "" {
		e.Source = Session
	}
	if r.RunID != "" {
		e.Context["run_id"] = r.RunID
	}
	if r.AgentPath != "" {
		e.Context["agent_path"] = r.AgentPath
		if r.AgentPath != string(record.Primary) {
			e.Source = Subagent
		}
	}
	return e, true
}

// ended returns the line of a run's end, by its outcome.
func ended(payload map[string]any) line {
	switch payload["outcome"] {
	case string(record.RunFailed):
		return line{failure, "Run failed", []string{"error_message"}}
	case string(record.RunCancelled):
		return line{info, "Run cancelled", nil}
	}
	return line{info, "Run completed", nil}
}

// cageEnded returns the line of a cage's end. A cage that ended before its run was ended by a limit or a failure.
func cageEnded(payload map[string]any) line {
	l := line{warn, "Cage ended", []string{"reason"}}
	if payload["reason"] == "released" {
		l.level = info
	}
	return l
}

// sentence returns the text, with the details that the payload has.
func (l line) sentence(payload map[string]any) string {
	var details []string
	for _, key := range l.details {
		if v, ok := payload[key]; ok && v != nil && v != "" {
			details = append(details, fmt.Sprint(v))
		}
	}
	if len(details) == 0 {
		return l.text + "."
	}
	return l.text + ": " + strings.TrimSuffix(strings.Join(details, ", "), ".") + "."
}
