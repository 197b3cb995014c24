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

// Change is one transaction on a session. Nil and empty fields leave the session as it is. Its ids are made before
// it is first applied, so that applying it again after a lost answer is noticed and has no effect.
type Change struct {
	// At is when it happens, in milliseconds.
	At      int64
	Session Patch
	// Messages are appended in order; the store gives them their ordinals.
	Messages []Message
	// NewRun is added.
	NewRun *Run
	// Slot bounds the run that NewRun or StartRun begins, nil for no bound.
	Slot *Slot
	// StartRun is the pending run that begins, as it is from then on.
	StartRun *Run
	// Superseded are messages that no model is given any more.
	Superseded []string
	// Steer is a message that waits for the next step boundary of the run at work.
	Steer *Steer
	// Boundary is the step boundary of the root agent that the change stores; it may be nil.
	Boundary *Boundary
	// Steered are messages that wait no longer.
	Steered []string
	// Released is a run that stands at a safe point and goes on with the session's next holder, Adopted the id of one that
	// goes on here.
	Released *RunReleased
	Adopted  string
	// EndRun ends the session's run.
	EndRun *RunEnd
	// Worked is how long a run has worked so far, nil where that is not kept.
	Worked *RunWorked
	// Cage is the new state of a run's cage.
	Cage *RunCage
	// CancelRequested is the run with a noted cancellation.
	CancelRequested string
	// Steps are added to runs.
	Steps []StepHalf
	// Invocations are added, Ended are over, Cages are changes of their cages, Files their changed files so far.
	// The end of a run ends all of its own.
	Invocations []Invocation
	Ended       []Invocation
	Cages       []InvocationCage
	Files       []InvocationFiles
	// Compactions are completed compactions of agents, Flagged is one that the operator has judged, Undone the id of one
	// that no longer counts.
	Compactions []Compaction
	Flagged     *CompactionFlag
	Undone      string
	// Kept is a message with another mark.
	Kept *MessageMark
	// Ledger are new entries of the session's ledger.
	Ledger []contract.LedgerEntry
	// Approvals are requests for approval that are added, Answered is one that was answered, Closed are those of an agent
	// that is over.
	// The end of a run closes those of its own that are left.
	Approvals []Approval
	Answered  *Approval
	Closed    []Approval
	// Standing is a standing approval that is added, StandingUsed the id of one that allowed a call.
	Standing     *Standing
	StandingUsed string
	// Reserved are model calls that are about to be made, Settled are those that are over. The end of a run settles
	// those of its own that are left.
	Reserved []Spend
	Settled  []Settlement
	// Cut are the compactions between runs that are over: their calls that are not settled count as reserved.
	Cut []string
	// Audit is appended to the record.
	Audit []audit.Record
	// Outbox are the frames that tell clients of the change.
	Outbox []frames.Durable
}

// Patch changes fields of a session.
type Patch struct {
	// State is the new state, "" for the one it has. Ended also notes when.
	State           State
	BlockedReason   *string
	Label           *string
	Model           *string
	MaxSteps        *int32
	MaxOutputTokens *int32
	AuditHead       *contract.AuditHead
	// Issue is the number of the issue to work on, or 0.
	Issue *int64
	// Budget is one that bounds no use to clear it.
	Budget *contract.Budget
	// ResumeRun is a run that is to go on in a new one, "" to clear it.
	ResumeRun *string
	// RecalledAt is when the first run began, IdleFiredAt when the hooks for idle sessions were called; Injections are
	// what hooks add to the system prompt.
	RecalledAt, IdleFiredAt *int64
	Injections              *[]contract.Injection
}

// Empty reports whether the patch has no field set.
func (p Patch) Empty() bool { return p == Patch{} }

// On returns s as it is after the patch.
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

// Fields returns the change of the session's own fields. The beginning of a run, or the end of the session, clears
// the run to resume.
func (c Change) Fields() Patch {
	p := c.Session
	if c.NewRun != nil || p.State == Ended {
		p.ResumeRun = new(string)
	}
	return p
}

// Recall notes in a change that begins a run that it is the first one of s, and reports whether it is.
func (c *Change) Recall(s Session) (first bool) {
	if s.RecalledAt != 0 {
		return false
	}
	c.Session.RecalledAt = &c.At
	return true
}

// Given returns the change for a session that is s: a run with a stored cancellation is not resumed, even if it was
// cut off before it heard of that.
func (c Change) Given(s Session) Change {
	if c.EndRun != nil && s.CancelRequested {
		c.Session.ResumeRun = nil
	}
	return c
}

// On returns s as it is after the change, as the store would read it back.
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

// plus sums totals up; an unknown cost counts as zero beside a known one.
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

// Slot bounds how many sessions have a run at work at once: in a project, and of an operator.
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

// RunReleased is a run that is handed over.
type RunReleased struct {
	RunID string
	// Partial are the results so far of the steps at work.
	Partial []StepHalf
}

// Boundary is a step of the root agent after which it makes another request.
type Boundary struct {
	RunID string
	Step  int
	// Steers are the messages that are delivered there. With Told the run has been told of them, and later ones wait for
	// the next boundary; otherwise they are set when the change is stored.
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
