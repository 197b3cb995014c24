// Package record holds the stored state of sessions: the session, its messages and runs, their states, and the type
// of their changes.
//
// After a session is created, each change of it is one [Change], which the store applies in one transaction under
// the session's lease, or not at all. Reservations of model calls ([Claim]) and the progress of published frames
// are stored separately.
package record

import (
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/sessions/core/transcript"
)

// Overrides replace the project's settings; zero fields leave them unchanged.
type Overrides struct {
	// Model is "provider:model".
	Model string
	// MaxSteps is 1 to 100, MaxOutputTokens 1 to 65536.
	MaxSteps, MaxOutputTokens int32
}

// Session is a conversation. Times are Unix milliseconds; empty strings and zero times are absent values.
type Session struct {
	ID, Owner, ProjectID string
	Label                string
	State                State
	// BlockedReason is provider_unreachable or context_overflow after a run that failed for that reason, until a run
	// completes, else "". See [Session.Blocked].
	BlockedReason string
	Overrides     Overrides
	Budget        contract.Budget
	// CompiledHash is the hash of the snapshot it was created with. ProjectPath and Workspace locate its project.
	CompiledHash, ProjectPath, Workspace string
	// ResumeFrom is the session whose conversation it continues, or "".
	ResumeFrom           string
	CreatedAt, UpdatedAt int64
	EndedAt              int64
	MessageCount         int64
	// AuditHead is the head of the hash chain over its model requests.
	AuditHead contract.AuditHead
	// CurrentRun is its pending or active run, CurrentMessage the message that caused it.
	CurrentRun, CurrentMessage string
	// CancelRequested says that an operator wants CurrentRun to stop.
	CancelRequested bool
	// ResumeRun is an interrupted run that a new run is to continue, "" once that begins or is given up.
	ResumeRun string
	// Issue is the number of the issue that it works on, or 0.
	Issue int64
	// RecalledAt is the time of its first run, IdleFiredAt that of the last call of the hooks for idle sessions; 0 for
	// never.
	RecalledAt, IdleFiredAt int64
	// Injections are additions of hooks to the root agent's system prompt.
	Injections []contract.Injection
	// Cage is the status of the root agent's cage in CurrentRun, "" without a run.
	Cage contract.CageStatus
	// PromptHashes are the prompts of its last run: path to SHA-256 digest.
	PromptHashes map[string]string
	Totals       Totals
	// Steers are messages that wait for the run's next step boundary, in order; set only for a live session.
	Steers []Steer
}

// Steer is an operator's message that waits for a step boundary of a run.
type Steer struct {
	ID, Content string
	CreatedAt   int64
}

// Untold is an ended session whose workspace may not know of the end.
type Untold struct{ Session, Workspace string }

// ResumePending is the blocked_reason of a session whose interrupted run is about to continue in a new run.
const ResumePending = "resume_pending"

// Audited returns r as an audit record of the session.
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

// Totals is the use of runs.
type Totals struct {
	TokensIn, TokensOut int64
	// CostUSD is nil if no price is known.
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
	// Blocks is the full message, nil for a message that is one text.
	Blocks []llm.Block
	// Metadata is nil for a message that no model wrote, except a delivered steering message.
	Metadata             *transcript.Metadata
	RunID, AgentPath     string
	SubagentInvocationID string
	Superseded           bool
	Cost                 *float64
	CreatedAt            int64
	// Spans are the parts that compactions superseded. Summary is the text that replaces all superseded parts of the
	// session, SupersededTurns the number of the model's turns in them. Both are set only in a history, on the first
	// message with spans.
	Spans           []contract.Span
	Summary         string
	SupersededTurns int
	// AlwaysKeep says that compactions must not supersede it.
	AlwaysKeep bool
}

// Part selects a session's messages between two ordinals, both excluded. Before 0 means no upper bound.
type Part struct {
	After, Before int64
	NewestFirst   bool
}

// ActiveRun is a pending or active run. StartedAt is 0 while it is pending. Prompt is the beginning of its message.
type ActiveRun struct {
	ID, SessionID, ProjectID string
	State                    RunState
	Cage                     contract.CageStatus
	CreatedAt, StartedAt     int64
	Prompt                   string
	// Agents are its active agents below the root, oldest first.
	Agents []Invocation
}

// Run is the work on one message.
type Run struct {
	ID, SessionID, Owner, ProjectID string
	// TriggerMessageID is the message that started it, MessageID the message that it writes.
	TriggerMessageID, MessageID string
	State                       RunState
	StopReason                  llm.StopReason
	// Error is the cause of its failure.
	Error  *fault.Error
	Totals Totals
	Steps  int
	// CompiledHash is the hash of its snapshot, PromptHashes (path to SHA-256 digest) its prompts.
	CompiledHash                  string
	PromptHashes                  map[string]string
	CreatedAt, StartedAt, EndedAt int64
	// CancelRequestedAt is the time at which an operator cancelled it, or 0.
	CancelRequestedAt int64
	// ReleasedAt is the time at which its holder handed it over, 0 for a run that is active or over; Worked is its
	// working time until then.
	ReleasedAt int64
	Worked     time.Duration
	// Cage is the status of its root agent's cage.
	Cage contract.CageStatus
	// Issue is the number of the issue that it works on, or 0.
	Issue int64
	// Asking are its pending approvals, set only while the session is being loaded.
	Asking []Approval
	// Cut are its open invocations, and the ended ones that answer open calls of its root agent, oldest first; Below
	// is the usage of the ended ones. Both are set only while the session is being loaded.
	Cut   []Invocation
	Below Below
}

//convert:one storedAs(role llm.Role) Message transcript.Stored >Role=role >AfterStep=in.AfterStep() >Running=-

// AfterStep returns the step after which a steering message was delivered to its run, 0 for any other message.
func (m Message) AfterStep() int {
	if m.Metadata == nil || m.Metadata.Kind != transcript.KindSteer {
		return 0
	}
	return m.Metadata.AfterStep
}

// History appends to stored the messages that a model receives: without superseded ones and those of agents below the
// root.
func History(stored []transcript.Stored, messages ...Message) []transcript.Stored {
	roles := map[Role]llm.Role{Operator: llm.RoleUser, Primary: llm.RoleAssistant, System: llm.RoleSystem}
	for _, m := range messages {
		if m.Metadata != nil && m.Metadata.Kind == transcript.KindSummary {
			continue // its compaction adds it
		}
		if role, ok := roles[m.Role]; ok && !m.Superseded {
			stored = append(stored, storedAs(m, role))
		}
	}
	return stored
}

// Handed is the state of a run that was handed over, without its steps.
type Handed struct {
	// Approvals are the newest approvals of its open calls.
	Approvals []Approval
	// Calls are the numbers of the last model calls, by invocation id.
	Calls map[string]int
	// Spent is the use that counts against the budgets of active invocations, by invocation id.
	Spent map[string][]contract.SpentBefore
	// Spans are the superseded steps of the run's message. Summary and SupersededTurns are those of the whole
	// conversation.
	Spans           []contract.Span
	Summary         string
	SupersededTurns int
}

// NotFound is the error for a session that the caller cannot see.
func NotFound(id string) *fault.Error {
	return fault.New(fault.NotFound, "There is no session %q.", id)
}

// ReasonIssueBusy is the reason of a conflict with another run on the same issue.
const ReasonIssueBusy = "issue_busy"

// IssueBusy is the error for a run on an issue on which another run works.
func IssueBusy(number int64) *fault.Error {
	return fault.New(fault.Conflict, "Another run works on issue #%d; wait for it, or cancel it.", number).
		With("reason", ReasonIssueBusy).With("number", number)
}

// The reasons for a refused slot.
const (
	PerProject  = "per_project"
	PerOperator = "per_operator"
)

// FullSlots says that the limit of sessions with an active run is reached. Reason is [PerProject] or [PerOperator].
type FullSlots struct {
	Reason  string `json:"reason"`
	Running int    `json:"running_count"`
	Limit   int    `json:"limit"`
}

// NoSlot is the error for a run that cannot begin because a limit is reached.
func NoSlot(f FullSlots) *fault.Error {
	of := "yours"
	if f.Reason == PerProject {
		of = "the project"
	}
	return fault.New(fault.Conflict, "%d of %d sessions of %s are at work. Stop one, or wait until one ends.",
		f.Running, f.Limit, of).
		With("reason", f.Reason).With("running_count", f.Running).With("limit", f.Limit)
}

// NoSlotOf returns the details of a [NoSlot] error.
func NoSlotOf(err error) (f FullSlots) {
	d := fault.From(err).Details
	f.Reason, _ = d["reason"].(string)
	f.Running, _ = d["running_count"].(int)
	f.Limit, _ = d["limit"].(int)
	return f
}

// IsNoSlot reports whether err is a [NoSlot] error.
func IsNoSlot(err error) bool {
	if err == nil || fault.CodeOf(err) != fault.Conflict {
		return false
	}
	reason := NoSlotOf(err).Reason
	return reason == PerProject || reason == PerOperator
}

// RunNotFound is the error for a run that its session does not have.
func RunNotFound(id string) *fault.Error {
	return fault.New(fault.NotFound, "There is no run %q in this session.", id)
}
