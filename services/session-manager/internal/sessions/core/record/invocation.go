package record

import (
	"slices"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/services/session-manager/internal/sessions/core/transcript"
)

// InvocationState is the state of a call of an agent by another.
type InvocationState string

// The states; from InvocationCompleted on they are outcomes.
const (
	InvocationPending   InvocationState = "pending"
	InvocationRunning   InvocationState = "running"
	InvocationCompleted InvocationState = "completed"
	InvocationFailed    InvocationState = "failed"
	InvocationCancelled InvocationState = "cancelled"
)

// Over reports whether the invocation has ended.
func (s InvocationState) Over() bool { return s != InvocationPending && s != InvocationRunning }

// Exit returns the state as an exit status: 0 if it completed, 130 if it was cancelled, else 1.
func (s InvocationState) Exit() int {
	switch s {
	case InvocationCompleted:
		return 0
	case InvocationCancelled:
		return 130
	}
	return 1
}

// Outcome returns the state as the harness's outcome.
func (s InvocationState) Outcome() contract.Outcome {
	switch s {
	case InvocationCompleted:
		return contract.Completed
	case InvocationCancelled:
		return contract.Cancelled
	}
	return contract.Failed
}

// Invocation is one call of an agent by another. Empty strings and zero times are absent values.
type Invocation struct {
	ID, SessionID, RunID string
	// ParentID is the caller's invocation, "" for the root agent; CallID is the tool call.
	ParentID, CallID string
	// Name is the agent's key, AgentPath its tree path.
	Name, AgentPath string
	State           InvocationState
	// Cage is the status of its cage, Policy the cage's policy, nil without a cage.
	Cage   contract.CageStatus
	Policy *dsl.Cage
	// Tools are the names of its tools.
	Tools []string
	// Prompt is the caller's request, Output the agent's last text; Truncated says that Output was cut.
	Prompt, Output string
	Truncated      bool
	// Error is the cause of its failure.
	Error *fault.Error
	// Steps and Totals exclude agents below it.
	Steps        int
	Totals       Totals
	FilesChanged []string
	StartedAt    int64
	EndedAt      int64
	// Kept are its stored steps, set only for an open invocation while its session is being loaded.
	Kept []transcript.Step
}

// Result returns an ended invocation as the result of the caller's tool call.
func (i Invocation) Result() llm.ToolResult {
	answer := contract.Answer{
		InvocationID: i.ID,
		Ended: contract.AgentEnded{
			Outcome: i.State.Outcome(), Err: i.Error, Text: i.Output, Truncated: i.Truncated, Steps: i.Steps,
			DurationMS: max(i.EndedAt-i.StartedAt, 0), FilesChanged: i.FilesChanged,
		},
		Usage: llm.Usage{Input: i.Totals.TokensIn, Output: i.Totals.TokensOut},
	}
	if i.Totals.CostUSD != nil {
		answer.Cost = &llm.Cost{Total: *i.Totals.CostUSD}
	}
	return llm.ToolResult{
		CallID: i.CallID, Name: contract.AgentTool + i.Name, Content: answer.Content(),
		IsError: i.State != InvocationCompleted, DurationMS: answer.Ended.DurationMS,
	}
}

// InvocationCage is the status of an invocation's cage.
type InvocationCage struct {
	ID     string
	Status contract.CageStatus
}

// InvocationFiles are the files that an invocation and the ended ones below it have changed.
type InvocationFiles struct {
	ID      string
	Changed []string
}

// Change adds changed files to the invocation, and reports whether one is new.
func (i *Invocation) Change(paths ...string) bool {
	before := len(i.FilesChanged)
	for _, path := range paths {
		at, known := slices.BinarySearch(i.FilesChanged, path)
		if !known && len(i.FilesChanged) < contract.MaxFilesChanged {
			i.FilesChanged = slices.Insert(slices.Clip(i.FilesChanged), at, path)
		}
	}
	return len(i.FilesChanged) > before
}

// InvocationNotFound is the error for an invocation that its session does not have.
func InvocationNotFound(id string) *fault.Error {
	return fault.New(fault.NotFound, "There is no invocation %q in this session.", id)
}

// Below is the usage of the ended agents below the root of a run.
type Below struct {
	Totals
	// Unpriced says that the cost of at least one of them is unknown.
	Unpriced bool
}

// Add adds the usage of an invocation.
func (b *Below) Add(i Invocation) {
	b.Totals = b.plus(i.Totals)
	b.Unpriced = b.Unpriced || i.Totals.CostUSD == nil && i.Steps > 0
}

// On returns the usage of a run whose root agent used t. The cost is nil if the cost of any agent is unknown.
func (b Below) On(t Totals) Totals {
	sum := t.plus(b.Totals)
	if b.Unpriced || t.CostUSD == nil {
		sum.CostUSD = nil
	}
	return sum
}
