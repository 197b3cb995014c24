package record

import (
	"slices"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/sessions/core/frames"
	"kaged.dev/services/session-manager/internal/sessions/core/transcript"
)

// Change is one transaction on a session. Nil and empty fields leave the session unchanged. Its ids are generated
// before the first try, so that a retry after a lost answer is recognised and has no effect.
type Change struct {
	// At is the time of the change, in Unix milliseconds.
	At      int64
	Session Patch
	// Messages are appended in order; the store sets their ordinals.
	Messages []Message
	// NewRun is added.
	NewRun *Run
	// Slot limits the active runs beside the one that NewRun or StartRun begins; nil for no limit.
	Slot *Slot
	// StartRun is the pending run that begins, in its new state.
	StartRun *Run
	// Superseded are messages that models no longer receive.
	Superseded []string
	// Steer is a message that waits for the next step boundary of the active run.
	Steer *Steer
	// Boundary is the step boundary of the root agent that the change stores; it may be nil.
	Boundary *Boundary
	// Steered are the ids of messages that no longer wait for a step boundary.
	Steered []string
	// Released is a run that stops at a safe point for the session's next holder to adopt. Adopted is the id of a run
	// that this holder adopts.
	Released *RunReleased
	Adopted  string
	// EndRun ends the session's run.
	EndRun *RunEnd
	// Worked is the working time of a run so far, nil to leave it unchanged.
	Worked *RunWorked
	// Cage is the new state of a run's cage.
	Cage *RunCage
	// CancelRequested is the id of the run that an operator wants to stop.
	CancelRequested string
	// Steps are appended to runs.
	Steps []StepHalf
	// Invocations begin, Ended have ended, Cages are new states of cages of invocations, Files the files changed so
	// far. The end of a run ends its invocations too.
	Invocations []Invocation
	Ended       []Invocation
	Cages       []InvocationCage
	Files       []InvocationFiles
	// Compactions are completed compactions of agents, Flagged the operator's judgement of one, Undone the id of one
	// that no longer applies.
	Compactions []Compaction
	Flagged     *CompactionFlag
	Undone      string
	// Kept is a message with a new AlwaysKeep mark.
	Kept *MessageMark
	// Ledger are new entries of the session's ledger.
	Ledger []contract.LedgerEntry
	// Approvals are new requests, Answered is one that was answered, Closed are those of an ended agent. The end of a
	// run closes its remaining ones.
	Approvals []Approval
	Answered  *Approval
	Closed    []Approval
	// Standing is a new standing approval, StandingUsed the id of one that allowed a call.
	Standing     *Standing
	StandingUsed string
	// Reserved are model calls that are about to be made, Settled are finished ones. The end of a run settles its
	// remaining ones.
	Reserved []Spend
	Settled  []Settlement
	// Cut are the ids of ended compactions between runs; their unsettled model calls count with their full
	// reservation.
	Cut []string
	// Audit are new audit records.
	Audit []audit.Record
	// Outbox are the frames that show the change to clients.
	Outbox []frames.Durable
}

// Patch changes fields of a session. Nil and empty fields leave them unchanged.
type Patch struct {
	// State is the new state, "" for no change. Ended also sets the time of the end.
	State           State
	BlockedReason   *string
	Label           *string
	Model           *string
	MaxSteps        *int32
	MaxOutputTokens *int32
	AuditHead       *contract.AuditHead
	// Issue is the number of the issue to work on, or 0.
	Issue *int64
	// Budget is the new budget; one without limits clears it.
	Budget *contract.Budget
	// ResumeRun is an interrupted run that a new run is to continue, "" to clear it.
	ResumeRun *string
	// RecalledAt is the time of the first run, IdleFiredAt that of the last call of the hooks for idle sessions.
	// Injections are additions of hooks to the system prompt.
	RecalledAt, IdleFiredAt *int64
	Injections              *[]contract.Injection
}

// Empty reports whether no field of the patch is set.
func (p Patch) Empty() bool { return p == Patch{} }

// On returns s with the patch applied.
func (p Patch) On(s Session) Session {
	if p.State != "" {
		s.State = p.State
	}
	set(&s.BlockedReason, p.BlockedReason)
	set(&s.Label, p.Label)
	set(&s.Overrides.Model, p.Model)
	set(&s.Overrides.MaxSteps, p.MaxSteps)
	set(&s.Overrides.MaxOutputTokens, p.MaxOutputTokens)
	set(&s.AuditHead, p.AuditHead)
	set(&s.ResumeRun, p.ResumeRun)
	set(&s.Issue, p.Issue)
	set(&s.Budget, p.Budget)
	set(&s.RecalledAt, p.RecalledAt)
	set(&s.IdleFiredAt, p.IdleFiredAt)
	set(&s.Injections, p.Injections)
	return s
}

// Fields returns the patch with the fields that the change implies: the beginning of a run or the end of the
// session clears ResumeRun.
func (c Change) Fields() Patch {
	p := c.Session
	if c.NewRun != nil || p.State == Ended {
		p.ResumeRun = new(string)
	}
	return p
}

// Recall marks a change that begins the first run of s, and reports whether it does.
func (c *Change) Recall(s Session) (first bool) {
	if s.RecalledAt != 0 {
		return false
	}
	c.Session.RecalledAt = &c.At
	return true
}

// Given returns the change for the session s: a run that an operator cancelled is not resumed, even if it was cut
// off before it received the cancellation.
func (c Change) Given(s Session) Change {
	if c.EndRun != nil && s.CancelRequested {
		c.Session.ResumeRun = nil
	}
	return c
}

// On returns s with the change applied, equal to the session that the store then returns.
func (c Change) On(s Session) Session {
	if patch := c.Fields(); !patch.Empty() {
		s = patch.On(s)
		s.UpdatedAt = c.At
		if patch.State == Ended {
			s.EndedAt = c.At
		}
	}
	s.MessageCount += int64(len(c.Messages))
	if c.Steer != nil {
		s.Steers = append(s.Steers[:len(s.Steers):len(s.Steers)], *c.Steer)
	}
	if len(c.Steered) > 0 {
		s.Steers = slices.DeleteFunc(slices.Clone(s.Steers), func(w Steer) bool {
			return slices.Contains(c.Steered, w.ID)
		})
	}
	if c.EndRun != nil {
		s.CurrentRun, s.CurrentMessage, s.Cage, s.CancelRequested = "", "", "", false
		s.Totals = s.Totals.plus(c.EndRun.Totals)
	}
	if c.NewRun != nil {
		s.CurrentRun, s.CurrentMessage, s.PromptHashes = c.NewRun.ID, c.NewRun.TriggerMessageID, c.NewRun.PromptHashes
		s.Cage, s.CancelRequested = c.NewRun.Cage, false
	}
	if c.StartRun != nil {
		s.PromptHashes, s.Cage = c.StartRun.PromptHashes, c.StartRun.Cage
	}
	if c.CancelRequested != "" && c.CancelRequested == s.CurrentRun {
		s.CancelRequested = true
	}
	if c.Cage != nil && c.EndRun == nil {
		s.Cage = c.Cage.Status
	}
	return s
}

// plus adds totals; an unknown cost counts as zero beside a known one.
func (t Totals) plus(u Totals) Totals {
	sum := Totals{TokensIn: t.TokensIn + u.TokensIn, TokensOut: t.TokensOut + u.TokensOut, CostUSD: t.CostUSD}
	if u.CostUSD != nil {
		cost := *u.CostUSD
		if t.CostUSD != nil {
			cost += *t.CostUSD
		}
		sum.CostUSD = &cost
	}
	return sum
}

func set[T any](field *T, value *T) {
	if value != nil {
		*field = *value
	}
}

// Slot limits the number of sessions with an active run: per project, and per operator.
type Slot struct{ PerProject, PerOperator int }

// RunCage is the status of a run's cage.
type RunCage struct {
	RunID  string
	Status contract.CageStatus
}

// RunEnd is the end of a run.
type RunEnd struct {
	RunID      string
	State      RunState
	StopReason llm.StopReason
	// Error is nil for a run that did not fail.
	Error  *fault.Error
	Totals Totals
	Steps  int
}

// RunReleased is a run to be handed over.
type RunReleased struct {
	RunID string
	// Partial are the results so far of the unfinished steps.
	Partial []StepHalf
}

// Boundary is the end of a root agent's step that another model request follows.
type Boundary struct {
	RunID string
	Step  int
	// Steers are the messages delivered at the boundary. With Told the run has received them, and later messages wait
	// for the next boundary; otherwise the store sets Steers when it applies the change.
	Steers []Steer
	Told   bool
}

// StepHalf is one of the two halves of a step: the model's turn, or the results of its tools.
type StepHalf struct {
	RunID string
	// InvocationID is the invocation of the step, "" for the root agent.
	InvocationID string
	Step         int
	// Turn is set for the first half; Results is the second.
	Turn    *transcript.Turn
	Results []llm.ToolResult
}
