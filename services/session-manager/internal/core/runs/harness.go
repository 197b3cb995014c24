package runs

import (
	"context"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/services/session-manager/internal/core/audit"
	"kaged.dev/services/session-manager/internal/core/frames"
	"kaged.dev/services/session-manager/internal/core/localconfig"
	"kaged.dev/services/session-manager/internal/core/record"
	"kaged.dev/services/session-manager/internal/core/transcript"
)

// Harness runs agents. It keeps nothing between runs.
type Harness interface {
	// Start gives a run to the harness, which gets it ready and asks no model before [Stream.Go]. The stream ends with ctx: the
	// provider's request and the run's tools end with it. It fails with unavailable if the harness cannot be reached.
	Start(ctx context.Context, s Start) (Stream, error)
}

// Start is everything a run depends on.
type Start struct {
	Spec
	Routes map[string]localconfig.Route
}

// Stream is a run as the harness reports it. Recv is called by one goroutine, the others by any.
type Stream interface {
	// Go lets the run ask models.
	Go() error
	// Recv returns the next event; after [Finished] or an error there is none.
	Recv() (Event, error)
	// Stored tells the harness that a half of a step is on disk, and the routes if they have changed.
	Stored(half Half, routes map[string]localconfig.Route) error
	// Decide tells the harness an operator's answer, which is on disk.
	Decide(Decision) error
	// Cancel asks the harness to stop. It reports what there is and finishes.
	Cancel(reason string) error
}

// Half names one of the two halves of a step.
type Half struct {
	Step    int
	Results bool
}

// Event is what happened in a run: one of the types below.
type Event interface{ event() }

// Started says that a model accepted the first request.
type Started struct {
	Provider, Model, Driver string
	At                      int64
}

// Delta is a piece of what the model writes.
type Delta struct {
	Text     string
	Thinking bool
}

// ToolStarted says that a tool is about to run.
type ToolStarted struct {
	Step int
	Call llm.ToolCall
}

// ToolOutput is what a running tool wrote.
type ToolOutput struct{ CallID, Stream, Text string }

// ToolFinished is a tool's result with the records of the call.
type ToolFinished struct {
	Step   int
	Result llm.ToolResult
	// Input is the parameters as JSON text.
	Input      string
	DurationMS int64
	Audit      []audit.Record
}

// TurnDone is a complete turn of the model, to be stored and answered.
type TurnDone struct {
	transcript.Turn
	// Wait says that the harness goes on only after the answer.
	Wait bool
}

// StepDone says that all results of a step are there, to be stored and answered.
type StepDone struct{ Step int }

// Recorded is something for the record.
type Recorded struct{ Record audit.Record }

// CageChanged says in which cage the run's agent is, or that it has ended.
type CageChanged struct {
	AgentPath  string
	Status     record.CageStatus
	Tier       string
	BestEffort []string
	// Summary is the policy in one line, Ended why the cage has ended before the run, "" while it lives.
	Summary, Ended string
	// Notes are what an operator is told of a cage that was made, Found is what was made in it, known at its end.
	Notes []string
	Found []frames.CageFinding
	Audit audit.Record
}

// NetworkTried is something in the cage that tried to reach the network.
type NetworkTried struct {
	AgentPath string
	At        int64
	// Target is what it wanted; Rule what allowed it, or a sentence with why not; Count how many of its kind this stands for.
	Target  string
	Allowed bool
	Rule    string
	Count   int64
	Audit   audit.Record
}

// HeadMoved says where the record of model requests stands now.
type HeadMoved struct{ Head record.AuditHead }

// Retried says that a model call failed and will be made again.
type Retried struct {
	Error           *fault.Error
	Attempt         int
	DelayMS         int64
	Provider, Model string
}

// Outcome is how the harness says a run ended.
type Outcome int

// The outcomes.
const (
	Completed Outcome = iota
	Failed
	Cancelled
)

// Finished is the end of a run and the last event.
type Finished struct {
	Outcome Outcome
	Stop    llm.StopReason
	Usage   llm.Usage
	// Stats is nil if nothing was measured.
	Stats *transcript.Stats
	// Error says why it failed, ErrorStatus is the provider's HTTP status where it had one.
	Error       *fault.Error
	ErrorStatus int
	// Closing is the message's last text, "" for none; Partial is what of an unfinished turn was received.
	Closing string
	Partial []llm.Block
}

func (Started) event()      {}
func (Delta) event()        {}
func (ToolStarted) event()  {}
func (ToolOutput) event()   {}
func (ToolFinished) event() {}
func (TurnDone) event()     {}
func (StepDone) event()     {}
func (Recorded) event()     {}
func (HeadMoved) event()    {}
func (Retried) event()      {}
func (CageChanged) event()  {}
func (NetworkTried) event() {}
func (Finished) event()     {}
