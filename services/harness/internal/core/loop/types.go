package loop

import (
	"context"
	"log/slog"
	"time"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/services/harness/internal/core"
)

// DefaultMaxSteps is how many model calls a run makes at most where nobody says.
const DefaultMaxSteps = 20

// Start is everything a run depends on.
type Start struct {
	// RunID, SessionID, ProjectID, OperatorID and RequestID say whose run it is. None of them reaches a model.
	RunID, SessionID, ProjectID, OperatorID, RequestID string
	// Agent is the agent that runs.
	Agent *core.Agent
	// Prompts are the contents of prompt files by their path in the snapshot.
	Prompts map[string]string
	// Routes say where calls go, by alias.
	Routes map[string]Route
	// MaxSteps and MaxOutputTokens override the agent's; 0 does not.
	MaxSteps, MaxOutputTokens int
	// ProjectRoot is the project's folder, absolute.
	ProjectRoot string
	// History is the conversation so far, oldest first.
	History []llm.Message
	// AuditHead is where the record of the session's model requests stands.
	AuditHead AuditHead
	// NoSandbox says that cages are switched off.
	NoSandbox bool
	// OperatorTools are the operator's rules for tools, in order.
	OperatorTools []core.ToolSwitch
	// Job is set for a run that nobody attends.
	Job *Job
	// Hold, unless nil, returns when models may be asked; see [llm.Request].
	Hold func(context.Context) error
}

// Route is where the calls of an alias go: to the first target, and to the next while nothing was accepted.
type Route struct {
	Alias   string
	Targets []Target
}

// Target is one place a model call can go.
type Target struct {
	llm.Target
	// Unusable is why it cannot be used, nil if it can.
	Unusable *fault.Error
}

// AuditHead is where the record of model requests stands: the hash of the chain after its items, and how many there are.
type AuditHead struct {
	Hash  string
	Items int
}

// Deps are what a run needs from the world.
type Deps struct {
	Models Models
	Tools  Tools
	Prices Prices
	Log    *slog.Logger
	// Stopping is closed when the service is about to stop: runs end at their next step boundary.
	Stopping <-chan struct{}
	Limits   Limits
}

// Limits bounds what a run does by itself. No field is zero.
type Limits struct {
	// Tries is how often the last target of a route is asked before the run fails; one with others after it is asked once.
	Tries int
	// FirstDelay is the time between the first two tries, and doubles from try to try. LongestDelay is the longest there
	// is: a provider that wishes for less is given its wish, one that wishes for more is not waited for.
	FirstDelay, LongestDelay time.Duration
	// Parallel is how many tools of one turn run side by side.
	Parallel int
}

// DefaultLimits returns the specification's values.
func DefaultLimits() Limits {
	return Limits{Tries: 3, FirstDelay: 500 * time.Millisecond, LongestDelay: time.Minute, Parallel: 8}
}

// Models opens the drivers of targets.
type Models interface {
	// Open returns a driver for a target. It fails with provider_not_configured if there is none.
	Open(llm.Target) (llm.Driver, error)
}

// Tools is the tool runner of a run's workspace.
type Tools interface {
	// Catalogue returns the tools there are.
	Catalogue(ctx context.Context) (core.Catalogue, error)
	// Run runs one call. A tool that fails is an outcome; an error means that the tool runner could not be asked or broke
	// off, or that the call was cancelled, by the end of ctx or otherwise. The outcome then still holds the tool runner's
	// records of the call, if it gave any. output is called in order, never at the same time, and not after Run has returned.
	Run(ctx context.Context, call ToolRequest, output func(stream, text string)) (ToolOutcome, error)
	// Hold makes the cage of an agent's invocation, to be known by id, and returns when it is there. It lives until ctx ends,
	// longer only while background processes run in it. Hold fails with cage_policy_invalid and cage_unavailable if it cannot be made.
	Hold(ctx context.Context, id string, caller *ToolContext) (Cage, error)
}

// ToolRequest is a call as the tool runner is given it.
type ToolRequest struct {
	// CallID is unique in the session.
	CallID string
	// Tool is the name the model used; Input its parameters as JSON text.
	Tool, Input string
	// Context is who calls.
	Context *ToolContext
	// Grant is the fingerprint of the question an operator said yes to, "" for none.
	Grant string
}

// ToolContext is who calls tools, from where, and what they may do.
type ToolContext struct {
	SessionID, RunID, RequestID, Caller, ProjectID, ProjectRoot, OperatorID string
	// Cage is nil for none. CageID is the cage that commands run in, "" where there is none.
	Cage   *dsl.Cage
	CageID string
	// Tools are the canonical names of the agent's tools.
	Tools []string
	// Job is set where nobody can be asked.
	Job *Job
}

// Job is the policy of a run that nobody attends.
type Job struct {
	// Tools are the canonical names of the tools it may use besides those that only look.
	Tools []string
}

// ToolOutcome is what came of a call.
type ToolOutcome struct {
	// Content is what the model is shown.
	Content string
	// Err is the failure, nil if it succeeded.
	Err *fault.Error
	// Audit are the records of the call.
	Audit []Record
	// Duration is how long it took.
	Duration time.Duration
	// CageOver says that the call was ended with the agent's cage, whose end is about to be told.
	CageOver bool
	// Question is set instead of all but Audit for a call that was not made because an operator has to allow it.
	Question *Question
}

// Prices knows what models cost.
type Prices interface {
	// Cost returns the cost of usage, false where the model's prices are not known.
	Cost(target llm.Target, usage llm.Usage) (Cost, bool)
}

// Part is one of the two halves of a step.
type Part int

// The halves.
const (
	TurnPart Part = iota + 1
	ResultsPart
)

// Sink is where the events of a run go.
type Sink interface {
	// Emit sends an event. It blocks while the other side does not read, and fails when it is gone; then the run's context
	// ends too. It is safe for concurrent use.
	Emit(Event) error
	// Stored waits until the half of a step that was sent is on disk, and returns the routes if they have changed. It
	// fails when ctx ends or no answer can come any more.
	Stored(ctx context.Context, step int, part Part) (map[string]Route, error)
	// Ask sends a request for approval and waits for the operator's answer. It fails when ctx ends or no answer can come
	// any more. It is safe for concurrent use.
	Ask(ctx context.Context, q ApprovalRequested) (Decision, error)
}

// Event is what happens in a run: one of the types below.
type Event interface{ event() }

// MessageStart says that a model accepted the first request; once per run.
type MessageStart struct {
	Target    llm.Target
	StartedAt time.Time
}

// Delta is a piece of what the model writes.
type Delta struct {
	Thinking bool
	Text     string
}

// ToolStarted says that a tool is about to run.
type ToolStarted struct {
	Step int
	Call llm.ToolCall
}

// ToolOutput is what a running tool wrote.
type ToolOutput struct{ CallID, Stream, Text string }

// ToolFinished is a tool's result. The results of a step come in the order of its calls.
type ToolFinished struct {
	Step     int
	Input    string
	Result   llm.ToolResult
	Err      *fault.Error
	Audit    []Record
	Duration time.Duration
}

// Turn is one complete turn of the model, to be stored.
type Turn struct {
	Step   int
	Blocks []llm.Block
	Stop   llm.StopReason
	Usage  llm.Usage
	Stats  Stats
	Target llm.Target
	// Wait says whether the loop waits for the turn to be stored.
	Wait bool
}

// StepDone says that every result of a step was sent, to be stored.
type StepDone struct{ Step int }

// Retry is a model call that failed before anything was accepted and will be made again.
type Retry struct {
	Err     *fault.Error
	Attempt int
	Delay   time.Duration
	// Next is where the next try goes.
	Next llm.Target
}

// Record is a line of the append-only record. Payload holds JSON values.
type Record struct {
	Type      string
	At        time.Time
	AgentPath string
	Payload   map[string]any
}

// AuditMoved says that the record of model requests moved on.
type AuditMoved struct{ Head AuditHead }

func (MessageStart) event() {}
func (Delta) event()        {}
func (ToolStarted) event()  {}
func (ToolOutput) event()   {}
func (ToolFinished) event() {}
func (Turn) event()         {}
func (StepDone) event()     {}
func (Retry) event()        {}
func (Record) event()       {}
func (AuditMoved) event()   {}

// Outcome is how a run ended.
type Outcome int

// The outcomes.
const (
	Completed Outcome = iota + 1
	Failed
	Cancelled
)

// Finished is the end of a run.
type Finished struct {
	Outcome Outcome
	Stop    llm.StopReason
	Usage   llm.Usage
	// Stats is nil if no model call got as far as to be measured.
	Stats *Stats
	// Err is why it failed.
	Err *fault.Error
	// ClosingText is to be added as the message's last block.
	ClosingText string
	// Partial is what of an unfinished turn was received.
	Partial []llm.Block
	// Steps is how many turns were completed.
	Steps int
	// Detail is more about a provider's refusal, for the record.
	Detail map[string]any
}

// Stats measures the model's work.
type Stats struct {
	// TTFT is the time from the request to the first text or thinking, nil if there was none.
	TTFT *time.Duration
	// Duration is the time of streaming.
	Duration time.Duration
	// TPS is output tokens per second of Duration.
	TPS float64
	// Cost is nil where the model's prices are not known.
	Cost *Cost
}

// Cost is US dollars by kind of token; Output is the output that is not reasoning.
type Cost struct{ Input, Output, Reasoning, CacheRead, CacheWrite, Total float64 }

func (c Cost) add(d Cost) Cost {
	return Cost{
		c.Input + d.Input, c.Output + d.Output, c.Reasoning + d.Reasoning, c.CacheRead + d.CacheRead,
		c.CacheWrite + d.CacheWrite, c.Total + d.Total,
	}
}
