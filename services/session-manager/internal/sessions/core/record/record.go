// Package record holds the stored state of sessions: the session, its messages and runs, the states they go
// through, and the one form in which they change.
//
// Everything that happens to a session is one [Change], which the store applies in one transaction under the
// session's lease, or not at all. No other code writes these tables.
package record

import (
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/sessions/core/transcript"
)

// Overrides replace the project's settings; zero fields do not.
type Overrides struct {
	// Model is "provider:model".
	Model string
	// MaxSteps is 1 to 100, MaxOutputTokens 1 to 65536.
	MaxSteps, MaxOutputTokens int32
}

// Session is a conversation. Times are milliseconds since the Unix epoch; empty texts and zero times are absent
// values.
type Session struct {
	ID, Owner, ProjectID string
	Label                string
	State                State
	// BlockedReason keeps it from working besides its state: provider_unreachable or context_overflow. See
	// [Session.Blocked].
	BlockedReason string
	Overrides     Overrides
	Budget        contract.Budget
	// CompiledHash names the snapshot it was created with, ProjectPath and Workspace say where its project is.
	CompiledHash, ProjectPath, Workspace string
	// ResumeFrom is the session it was forked from.
	ResumeFrom           string
	CreatedAt, UpdatedAt int64
	EndedAt              int64
	MessageCount         int64
	// AuditHead is where the record of its model requests stands.
	AuditHead contract.AuditHead
	// CurrentRun is the run that is pending or at work, with the message that caused it.
	CurrentRun, CurrentMessage string
	// CancelRequested says that an operator wants that run to stop.
	CancelRequested bool
	// ResumeRun is a run that was cut off and is to go on in a new one, until that begins or it is given up.
	ResumeRun string
	// Issue is the number of the issue that it works on.
	Issue int64
	// RecalledAt is when its first run began, IdleFiredAt when the hooks for idle sessions were last called; 0 for never.
	RecalledAt, IdleFiredAt int64
	// Injections are what hooks add to the root agent's system prompt.
	Injections []contract.Injection
	// Cage is whether the root agent of that run works in a cage, "" without a run.
	Cage contract.CageStatus
	// PromptHashes are the prompts of its last run: path to SHA-256.
	PromptHashes map[string]string
	Totals       Totals
	// Steers wait for the next step boundary of the run at work, in order; only of a live session.
	Steers []Steer
}

// Steer is an operator's message that waits for a step boundary of a run.
type Steer struct {
	ID, Content string
	CreatedAt   int64
}

// Untold is an ended session with a workspace that may not have heard of it.
type Untold struct{ Session, Workspace string }

// ResumePending is shown as the blocked_reason of a session with an interrupted run that is about to go on in a new
// one.
const ResumePending = "resume_pending"

// Audited returns a record as one of the session.
func (s Session) Audited(r audit.Record) audit.Record {
	r.UserID, r.ProjectID, r.SessionID = s.Owner, s.ProjectID, s.ID
	return r.Clean()
}

// Blocked returns the blocked_reason for clients, or "".
func (s Session) Blocked() string {
	if s.BlockedReason == "" && s.ResumeRun != "" {
		return ResumePending
	}
	return s.BlockedReason
}

// Totals sums up the use of runs.
type Totals struct {
	TokensIn, TokensOut int64
	// CostUSD is nil where no price is known.
	CostUSD *float64
}

// Role is the author of a message.
type Role string

// The roles.
const (
	Operator Role = "operator"
	Primary  Role = "primary"
	Subagent Role = "subagent"
	System   Role = "system"
)

// Message is a stored message.
type Message struct {
	ID, SessionID string
	// Ordinal is its place in the session, given by the store.
	Ordinal int64
	Role    Role
	Content string
	// Blocks is the message in full, nil for one that is one text.
	Blocks []llm.Block
	// Metadata is nil without a model's text.
	Metadata             *transcript.Metadata
	RunID, AgentPath     string
	SubagentInvocationID string
	Superseded           bool
	Cost                 *float64
	CreatedAt            int64
	// Spans are the parts that compactions superseded. Summary is the text in the place of all such parts of
	// the session and SupersededTurns their number of the model's turns: both are set on the first message with
	// spans, of a history alone.
	Spans           []contract.Span
	Summary         string
	SupersededTurns int
	// AlwaysKeep says that no compaction may supersede it.
	AlwaysKeep bool
}

// Part is a part of a session's messages: those between two ordinals, both left out. Before 0 is no upper end.
type Part struct {
	After, Before int64
	NewestFirst   bool
}

// ActiveRun is a run that is pending or at work. StartedAt is 0 while it is pending; Prompt is the beginning of the
// message.
type ActiveRun struct {
	ID, SessionID, ProjectID string
	State                    RunState
	Cage                     contract.CageStatus
	CreatedAt, StartedAt     int64
	Prompt                   string
	// Agents are those at work below the root, the oldest first.
	Agents []Invocation
}

// Run is one operator's message and the work it caused.
type Run struct {
	ID, SessionID, Owner, ProjectID string
	// TriggerMessageID started it, MessageID is its own message.
	TriggerMessageID, MessageID string
	State                       RunState
	StopReason                  llm.StopReason
	// Error says why it failed.
	Error  *fault.Error
	Totals Totals
	Steps  int
	// CompiledHash and PromptHashes (path to SHA-256) are its inputs.
	CompiledHash                  string
	PromptHashes                  map[string]string
	CreatedAt, StartedAt, EndedAt int64
	// CancelRequestedAt is when an operator wanted it to stop.
	CancelRequestedAt int64
	// ReleasedAt is when its holder released it at a safe point, 0 for a run that is at work or over; Worked is how long
	// it had worked.
	ReleasedAt int64
	Worked     time.Duration
	// Cage is whether its root agent works in a cage.
	Cage contract.CageStatus
	// Issue is the number of the issue that it works on.
	Issue int64
	// Asking are its pending requests for approval, set only while the session is being loaded.
	Asking []Approval
	// Cut are the invocations that it was cut off in, and those that answer the open calls of its root agent, with
	// the oldest first; Below is the usage of those that are over. Both are set only while the session is being
	// loaded.
	Cut   []Invocation
	Below Below
}

//convert:one storedAs(role llm.Role) Message transcript.Stored >Role=role >AfterStep=in.AfterStep() >Running=-

// AfterStep returns the step whose results a message followed into its run, 0 for another message.
func (m Message) AfterStep() int {
	if m.Metadata == nil || m.Metadata.Kind != transcript.KindSteer {
		return 0
	}
	return m.Metadata.AfterStep
}

// History returns messages as a model reads them: without superseded ones, and without those of agents below the
// root.
func History(messages []Message) []transcript.Stored {
	roles := map[Role]llm.Role{Operator: llm.RoleUser, Primary: llm.RoleAssistant, System: llm.RoleSystem}
	stored := make([]transcript.Stored, 0, len(messages))
	for _, m := range messages {
		if m.Metadata != nil && m.Metadata.Kind == transcript.KindSummary {
			continue // its compaction places it
		}
		if role, ok := roles[m.Role]; ok && !m.Superseded {
			stored = append(stored, storedAs(m, role))
		}
	}
	return stored
}

// Handed is the state of a run that was handed over, besides its steps.
type Handed struct {
	// Approvals are the newest of its open calls.
	Approvals []Approval
	// Calls are the numbers of the last model calls, by invocation.
	Calls map[string]int
	// Spent is the use of models that counts against invocations at work, by invocation.
	Spent map[string][]contract.SpentBefore
	// Spans are the superseded steps of its message. Summary and SupersededTurns are those of the whole conversation.
	Spans           []contract.Span
	Summary         string
	SupersededTurns int
}

// NotFound is the answer for a session the caller cannot see.
func NotFound(id string) *fault.Error {
	return fault.New(fault.NotFound, "There is no session %q.", id)
}

// ReasonIssueBusy is the reason of a conflict with another run on the same issue.
const ReasonIssueBusy = "issue_busy"

// IssueBusy is the answer for a run on an issue that another one works on.
func IssueBusy(number int64) *fault.Error {
	return fault.New(fault.Conflict, "Another run works on issue #%d; wait for it, or cancel it.", number).
		With("reason", ReasonIssueBusy).With("number", number)
}

// The reasons why there is no slot.
const (
	PerProject  = "per_project"
	PerOperator = "per_operator"
)

// FullSlots says that as many sessions have a run at work as may: the reason is [PerProject] or [PerOperator].
type FullSlots struct {
	Reason  string `json:"reason"`
	Running int    `json:"running_count"`
	Limit   int    `json:"limit"`
}

// NoSlot is the answer where a run cannot begin because of that.
func NoSlot(f FullSlots) *fault.Error {
	return fault.New(fault.Conflict, "Concurrency limit still reached; no slot available.").
		With("reason", f.Reason).With("running_count", f.Running).With("limit", f.Limit)
}

// NoSlotOf returns the details of [NoSlot].
func NoSlotOf(err error) (f FullSlots) {
	d := fault.From(err).Details
	f.Reason, _ = d["reason"].(string)
	f.Running, _ = d["running_count"].(int)
	f.Limit, _ = d["limit"].(int)
	return f
}

// IsNoSlot reports whether err is a [NoSlot].
func IsNoSlot(err error) bool {
	if err == nil || fault.CodeOf(err) != fault.Conflict {
		return false
	}
	reason := NoSlotOf(err).Reason
	return reason == PerProject || reason == PerOperator
}

// RunNotFound is the answer for a run that its session does not have.
func RunNotFound(id string) *fault.Error {
	return fault.New(fault.NotFound, "There is no run %q in this session.", id)
}
