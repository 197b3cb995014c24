package contract

import (
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/frametype"
	"kaged.dev/pkg/llm"
)

// Event is an event of a run: one of the types below, or a [Record]. Package harnesswire has their wire forms.
type Event interface{ event() }

// Happening is an event and the invocation it happened in, which is empty for the root agent's.
type Happening struct {
	InvocationID string
	Event        Event
}

// Told is an event that is recorded and shown, and changes its run in no other way.
type Told interface {
	Event
	// Records returns the records of the event.
	Records() []Record
	// FrameType is the type of its frame on the channel of events, empty for an event that is only recorded.
	FrameType() frametype.Type
}

// MessageStart says that a model accepted the first request. It comes once per invocation.
type MessageStart struct {
	Provider, Model, Driver string
	StartedAt               int64
}

// SessionStarted says what hooks add to the system prompt of the root agent, from a session's first run on.
type SessionStarted struct{ Injections []Injection }

// Injection is a text that a hook adds to a system prompt.
type Injection struct {
	Plugin string `json:"plugin"`
	Text   string `json:"text"`
}

// Block returns the text as models read it.
func (i Injection) Block() string {
	return "<plugin:" + i.Plugin + ">\n" + i.Text + "\n</plugin:" + i.Plugin + ">"
}

// Delta is a piece of the model's text or thinking.
type Delta struct {
	Thinking bool
	Text     string
}

// ToolStarted says that a tool is about to run.
type ToolStarted struct {
	Step int
	Call llm.ToolCall
}

// ToolOutput is output of a running tool.
type ToolOutput struct{ CallID, Stream, Text string }

// ToolFinished is a tool's result with the records of the call. The results of a step come in the order of its calls.
type ToolFinished struct {
	Step int
	// Input is the parameters as JSON text.
	Input      string
	Result     llm.ToolResult
	Err        *fault.Error
	Audit      []Record
	DurationMS int64
	// Ledger are the entries of the session's ledger about the call, numbered.
	Ledger []LedgerEntry
}

// Turn is one complete turn of the model.
type Turn struct {
	// Step counts from 1.
	Step   int
	Blocks []llm.Block
	Stop   llm.StopReason
	Usage  llm.Usage
	// Stats is nil if the turn was not measured.
	Stats           *llm.Stats
	Provider, Model string
}

// TurnDone is a turn to be stored and answered.
type TurnDone struct {
	Turn
	// Wait says that the harness goes on only after the answer.
	Wait bool
}

// StepDone says that every result of a step was sent. The step is to be stored and answered.
// Last says that its agent makes no further request.
type StepDone struct {
	Step int
	Last bool
}

// Steer is an operator's message for a run at work: the root agent reads it behind the results of a step.
type Steer struct{ MessageID, Text string }

// Retracted says that an answer broke off, and that the deltas of its step so far are void: the turn is asked for once
// more. Audit has the usage of the attempt, which is part of that of the turn.
type Retracted struct {
	Step int
	// Reason is a sentence fit to show.
	Reason string
	Audit  Record
}

// Retry announces that a model call is repeated after a delay: the provider refused the call, or its answer broke off.
type Retry struct {
	Err     *fault.Error
	Attempt int
	DelayMS int64
	// Provider and Model are where the next try goes.
	Provider, Model string
}

// ApprovalRequested is a call that waits for an operator.
type ApprovalRequested struct {
	// ID is unique everywhere, CallID is the model's.
	ID, CallID string
	Step       int
	Subject    Subject
	// Audit are the records of the call so far.
	Audit []Record
}

// CageChanged says in which cage the agent of Audit is, or that the cage has ended.
type CageChanged struct {
	Status CageStatus
	// Tier, BestEffort, Summary and Notes are those of [Cage].
	Tier       string
	BestEffort []string
	Summary    string
	Notes      []string
	// Ended is why the cage has ended before the run, empty while it lives.
	Ended string
	// Found is known at its end.
	Found []Finding
	Audit Record
}

// NetworkTried is an attempt on the network by the agent of Audit.
type NetworkTried struct {
	Attempt Attempt
	Audit   Record
}

// AuditHead is where the record of model requests stands: the hash of the chain after its items, and how many there
// are.
type AuditHead struct {
	Hash  string
	Items int
}

// AuditMoved says that the record of model requests moved on.
type AuditMoved struct{ Head AuditHead }

// Outcome is how a run ended.
type Outcome int

// The outcomes.
const (
	Completed Outcome = iota + 1
	Failed
	Cancelled
)

// Finished is the end of a run and its last event.
type Finished struct {
	Outcome Outcome
	Stop    llm.StopReason
	Usage   llm.Usage
	// Stats is nil if no model call got as far as to be measured.
	Stats *llm.Stats
	// Err is why it failed.
	Err *fault.Error
	// ClosingText is to be added as the message's last block.
	ClosingText string
	// Partial is the received part of an unfinished turn.
	Partial []llm.Block
	// Steps is how many turns were completed.
	Steps int
	// Detail is more about a provider's refusal, for the record.
	Detail map[string]any
}

// Status returns the HTTP status of a provider's refusal, 0 without one.
func (f Finished) Status() int {
	switch status := f.Detail["status"].(type) {
	case int:
		return status
	case float64:
		return int(status)
	}
	return 0
}

// Records implements [Told].
func (r Record) Records() []Record { return []Record{r} }

// FrameType implements [Told].
func (Record) FrameType() frametype.Type { return frametype.Type{} }

// Records implements [Told].
func (Retry) Records() []Record { return nil }

// FrameType implements [Told].
func (Retry) FrameType() frametype.Type { return frametype.RunRetry }

// Records implements [Told].
func (e NetworkTried) Records() []Record { return []Record{e.Audit} }

// FrameType implements [Told].
func (NetworkTried) FrameType() frametype.Type { return frametype.NetworkAttempted }

func (MessageStart) event()      {}
func (Delta) event()             {}
func (ToolStarted) event()       {}
func (ToolOutput) event()        {}
func (ToolFinished) event()      {}
func (TurnDone) event()          {}
func (StepDone) event()          {}
func (Retracted) event()         {}
func (Retry) event()             {}
func (Record) event()            {}
func (ApprovalRequested) event() {}
func (CageChanged) event()       {}
func (NetworkTried) event()      {}
func (AuditMoved) event()        {}
func (SessionStarted) event()    {}
func (AgentStarted) event()      {}
func (AgentEnded) event()        {}
func (Finished) event()          {}
