package contract

import (
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/frametype"
	"kaged.dev/pkg/llm"
)

// Event is an event of a run: one of the types below, or a [Record]. Package harnesswire has their wire forms.
type Event interface{ event() }

// Happening is an event with its invocation, which is empty for the root agent.
type Happening struct {
	InvocationID string
	Event        Event
}

// Told is an event that is recorded and shown and has no other effect on its run.
type Told interface {
	Event
	// Records returns the records of the event.
	Records() []Record
	// FrameType is the type of its frame on the events channel, empty for an event without a frame.
	FrameType() frametype.Type
}

// MessageStart reports that a model accepted the first request. It comes once per invocation.
type MessageStart struct {
	Provider, Model, Driver string
	StartedAt               int64
}

// HistoryWanted answers the offered beginnings of a run's conversation. After is the hash of the beginning that the
// harness has kept, or empty; see [Chain].
type HistoryWanted struct{ After string }

// SessionStarted holds the additions of hooks to the system prompt of the root agent, from a session's first run on.
type SessionStarted struct{ Injections []Injection }

// Injection is a text that a hook adds to a system prompt.
type Injection struct {
	Plugin string `json:"plugin"`
	Text   string `json:"text"`
}

// Block returns the text in the form given to models.
func (i Injection) Block() string {
	return "<plugin:" + i.Plugin + ">\n" + i.Text + "\n</plugin:" + i.Plugin + ">"
}

// Delta is a piece of the model's text or thinking.
type Delta struct {
	Thinking bool
	Text     string
}

// ToolStarted reports the start of a tool call.
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
	Input  string
	Result llm.ToolResult
	Err    *fault.Error
	Audit  []Record
	// Ledger are the entries of the session's ledger about the call, numbered.
	Ledger []LedgerEntry
}

// Turn is one complete turn of the model.
type Turn struct {
	// Step is the number of the step, from 1.
	Step   int
	Blocks []llm.Block
	Stop   llm.StopReason
	Usage  llm.Usage
	// Stats is nil if the turn was not measured.
	Stats           *llm.Stats
	Provider, Model string
}

// TurnDone is a turn that is to be stored and answered.
type TurnDone struct {
	Turn
	// Wait is true if the harness waits for the answer.
	Wait bool
}

// StepDone reports that every result of a step was sent. The step is to be stored and answered. Last means that its
// agent makes no further request.
type StepDone struct {
	Step int
	Last bool
}

// Steer is an operator's message for a running run: the root agent gets it after the results of a step.
type Steer struct{ MessageID, Text string }

// Retracted reports that an answer broke off. The deltas of its step so far are void, and the turn is requested again.
// Audit has the usage of the attempt, which is included in that of the turn.
type Retracted struct {
	Step int
	// Reason is a sentence for the operator.
	Reason string
	Audit  Record
}

// Retry announces a repeated model call after a delay, because the provider refused the call or its answer broke off.
type Retry struct {
	Err     *fault.Error
	Attempt int
	DelayMS int64
	// Provider and Model are the target of the next attempt.
	Provider, Model string
}

// ApprovalRequested is a call that waits for an operator.
type ApprovalRequested struct {
	// ID is globally unique; CallID is the model's.
	ID, CallID string
	Step       int
	Subject    Subject
	// Audit are the records of the call so far.
	Audit []Record
}

// CageChanged reports the cage of the agent in Audit, or the cage's end.
type CageChanged struct {
	Status CageStatus
	// Tier, BestEffort, Summary and Notes are as in [Cage].
	Tier       string
	BestEffort []string
	Summary    string
	Notes      []string
	// Ended is the reason why the cage ended before the run, empty while it lives.
	Ended string
	// Found is set at its end.
	Found []Finding
	Audit Record
}

// NetworkTried is a network attempt by the agent in Audit.
type NetworkTried struct {
	Attempt Attempt
	Audit   Record
}

// AuditHead is the head of the record of model requests: the chain's hash after its last item, and the number of items.
type AuditHead struct {
	Hash  string
	Items int
}

// AuditMoved reports a new head of the record of model requests.
type AuditMoved struct{ Head AuditHead }

// Outcome is the outcome of a run.
type Outcome int

// The outcomes.
const (
	Completed Outcome = iota + 1
	Failed
	Cancelled
	// HandedOver is a run that goes on in another harness: no invocation of it has ended.
	HandedOver
)

// Finished is the end of a run and its last event.
type Finished struct {
	Outcome Outcome
	Stop    llm.StopReason
	Usage   llm.Usage
	// Stats is nil if no model call could be measured.
	Stats *llm.Stats
	// Err is the reason for a failure.
	Err *fault.Error
	// ClosingText is the text to add as the message's last block.
	ClosingText string
	// Partial is the received part of an unfinished turn.
	Partial []llm.Block
	// Steps is the number of completed turns.
	Steps int
	// Detail holds details of a provider's refusal, for the record.
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
func (HistoryWanted) event()     {}
func (AgentStarted) event()      {}
func (AgentEnded) event()        {}
func (Finished) event()          {}

// WholeMS returns a duration in milliseconds, rounded up, so that 0 is only that of nothing.
func WholeMS(d time.Duration) int64 { return (d + time.Millisecond - 1).Milliseconds() }
