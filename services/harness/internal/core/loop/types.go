package loop

import (
	"context"
	"log/slog"
	"time"

	"kaged.dev/pkg/catalogue"
	"kaged.dev/pkg/compile"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
)

// DefaultMaxSteps is the limit of model calls of a run whose agent sets none.
const DefaultMaxSteps = 20

// Start is the input of a run: its agent, its conversation and its options.
type Start struct {
	// RunID, SessionID, ProjectID, OperatorID and RequestID identify the run. They never reach a model.
	RunID, SessionID, ProjectID, OperatorID, RequestID string
	// Agent is the agent that runs.
	Agent *compile.Agent
	// LanguageServers are the language servers that the project declares.
	LanguageServers []dsl.LanguageServer
	// Debugging is the project's debug configuration.
	Debugging dsl.Debugging
	// Prompts are the contents of prompt files by their path in the snapshot.
	Prompts map[string]string
	// Issue is the number of the session's issue, 0 without one.
	Issue int64
	// Todos are the open todos of that issue.
	Todos contract.OpenTodos
	// Routes are the models to ask, by model alias.
	Routes map[string]contract.Route
	// MaxSteps and MaxOutputTokens override the root agent's limits; 0 keeps them.
	MaxSteps, MaxOutputTokens int
	// ProjectRoot is the project's folder, absolute.
	ProjectRoot string
	// History is the conversation so far, oldest first. Sources are the stored positions of its messages, in the same
	// order. MessageID is the message that the run writes.
	History   []llm.Message
	Sources   []contract.Source
	MessageID string
	// Carried is the state of the session's last run, or nil. The history of that run is the beginning of History. Carry
	// is called with the run's state at its end. It may be nil.
	Carried *Carried
	Carry   func(*Carried)
	// SupersededTurns is the number of the model's turns that compactions took out of History.
	SupersededTurns int
	// Kept are the stored messages that no compaction may supersede.
	Kept map[string]bool
	// Ledger is the session's ledger before the run.
	Ledger contract.Ledger
	// AuditHead is the head of the record of the session's model requests.
	AuditHead contract.AuditHead
	// NoSandbox turns cages off.
	NoSandbox bool
	// OperatorTools are the operator's rules for tools, in order.
	OperatorTools []catalogue.Switch
	// Job is set for an unattended run.
	Job *contract.Job
	// LiveAgents is the most agents of the run that may live at once, the root included; 0 uses [Limits].
	LiveAgents int
	// Metered is true if the session or the operator has a budget, so that [Sink.Grant] may refuse model calls.
	Metered bool
	// First is true for the session's first run. Injections are the texts that hooks gave to it; a later run repeats
	// them.
	First      bool
	Injections []contract.Injection
	// Continued are the unfinished invocations of a run that was handed over, each after its caller.
	Continued []contract.Continued
	// Hold, unless nil, blocks until the run is stored and models may be asked. Further calls return at once.
	Hold func(context.Context) error
}

// Deps are a run's dependencies.
type Deps struct {
	Models Models
	Tools  Tools
	Prices Prices
	Log    *slog.Logger
	// Watch may be nil.
	Watch Watch
	// Memories bound what drivers keep of conversations between requests; nil keeps nothing.
	Memories *llm.Memories
	// Meters may be nil.
	Meters *Meters
	// Beat is shared by all runs of the process; nil uses one of the run's own.
	Beat *Beat
	// Hooks are called, in this order, at compactions and at the beginning of sessions.
	Hooks []Hook
	// CagesOnly refuses agents without a cage.
	CagesOnly bool
	// Stopping is closed when the service stops or the run is to be handed over. Each invocation then stops at its next
	// step boundary, or where it waits for an operator, and the run ends as handed over.
	Stopping <-chan struct{}
	Limits   Limits
}

// Limits bound a run. No field is zero.
type Limits struct {
	// Tries is the number of attempts at the last target of a route. An earlier target gets one attempt.
	Tries int
	// FirstDelay is the delay before the second attempt. It doubles with each attempt up to LongestDelay. A provider's
	// longer wish for a delay is granted up to LongestDelay; a wish beyond that ends the attempts.
	FirstDelay, LongestDelay time.Duration
	// Parallel is the most tools of one turn that run at once.
	Parallel int
	// Agents is the most children of one turn that run at once. TurnAgents is the most children that one turn may call.
	// LiveAgents is the default of [Start.LiveAgents].
	Agents, TurnAgents, LiveAgents int
	// CallRepeats is the number of equal calls in a row, with equal results, after which the agent is warned.
	// CycleRepeats is that number for a cycle of two or three calls.
	CallRepeats, CycleRepeats int
	// CageLeave is the longest wait, at the end of an invocation, for the end of its cage and the search of its
	// writable folders.
	CageLeave time.Duration
}

// DefaultLimits returns the specification's values.
func DefaultLimits() Limits {
	return Limits{
		Tries: 3, FirstDelay: 500 * time.Millisecond, LongestDelay: time.Minute, Parallel: 8, Agents: 8, TurnAgents: 64,
		LiveAgents: 16, CallRepeats: 3, CycleRepeats: 4, CageLeave: 30 * time.Second,
	}
}

// Models opens the drivers of targets.
type Models interface {
	// Open returns a driver for a target. It fails with provider_not_configured for an unknown one.
	Open(llm.Target) (llm.Driver, error)
}

// Tools is the tool runner of a run's workspace.
type Tools interface {
	// Catalogue returns all tools of the tool runner.
	Catalogue(ctx context.Context) (catalogue.Tools, error)
	// Run runs one call. A failing tool is an outcome. An error means that the tool runner was unreachable or broke
	// off, or that the call was cancelled, by the end of ctx or otherwise; the outcome then still holds the tool
	// runner's records of the call, if it gave any. output is called in order, never concurrently, and never after Run
	// has returned.
	Run(ctx context.Context, call ToolRequest, output func(stream, text string)) (ToolOutcome, error)
	// HoldRun holds the caller's run in the workspace until ctx ends, and holds it again after the loss of the tool
	// runner. known is called once, when the workspace knows the run or is unreachable. told is called with the events
	// of the run's debug sessions, in order.
	HoldRun(ctx context.Context, caller *contract.Caller, known func(), told func(contract.DebugEvent))
	// KeepRun makes the workspace keep the caller's run, with its cages and processes, for the harness that continues
	// it.
	KeepRun(ctx context.Context, caller *contract.Caller) error
	// Hold makes the cage of an agent's invocation under the given id. It returns once the policy is checked and the
	// cage's paths are open; [Cage.Opened] waits for the cage itself. The cage lives until ctx ends, and longer while
	// background processes run in it. Hold fails with cage_policy_invalid and cage_unavailable.
	Hold(ctx context.Context, id string, caller *contract.Caller) (Cage, error)
}

// ToolRequest is a tool call for the tool runner.
type ToolRequest struct {
	// CallID is unique in the session.
	CallID string
	// Tool is the name that the model used; Input is the parameters as JSON text.
	Tool, Input string
	// Context is the calling agent.
	Context *contract.Caller
	// Grant is the fingerprint of the question that an operator approved, or empty.
	Grant string
}

// ToolOutcome is the outcome of a call.
type ToolOutcome struct {
	// Content is the text for the model.
	Content string
	// Gist, unless empty, replaces Content when results are compared.
	Gist string
	// Err is the failure, nil if it succeeded.
	Err *fault.Error
	// Audit are the audit records of the call.
	Audit []contract.Record
	// Duration is the time of the call.
	Duration time.Duration
	// CageOver is true if the call ended because its cage ended. The cage reports its end as an event.
	CageOver bool
	// Question is the question of a call that was not made because an operator has to allow it. Only Audit is set
	// beside it.
	Question *contract.Question
}

// Prices knows the prices of models.
type Prices interface {
	// Cost returns the cost of usage, false for a model without known prices.
	Cost(target llm.Target, usage llm.Usage) (llm.Cost, bool)
	// MaxOutput returns the most output tokens of an answer of the model, 0 if unknown.
	MaxOutput(target llm.Target) int
	// Window returns the tokens of a model's context window, 0 for an unknown one.
	Window(target llm.Target) int
}

// Part is a half of a step: the model's turn, or the results of its calls.
type Part int

const (
	TurnPart Part = iota + 1
	ResultsPart
)

// Half names one half of a step. InvocationID is empty for the root agent.
type Half struct {
	InvocationID string
	Step         int
	Part         Part
}

// Stored is the answer of the storage to a half of a step.
type Stored struct {
	// Routes are the new routes, nil if they are unchanged.
	Routes map[string]contract.Route
	// Todos are the open todos of the run's issue. They come with the root agent's results.
	Todos contract.OpenTodos
	// Steers are messages that the operator sent during the run. They follow the root agent's results.
	Steers []contract.Steer
}

// Sink receives the events of a run.
type Sink interface {
	// Emit sends an event. It blocks while the receiver does not read. It fails when the receiver is gone, and then the
	// run's context ends too. It is safe for concurrent use.
	Emit(contract.Happening) error
	// Stored waits for the answer to a half: for a turn until it is on disk, for results until the input of the next
	// request is known. It fails when ctx ends or the receiver is gone. It is safe for concurrent use, by one goroutine
	// for each invocation.
	Stored(ctx context.Context, half Half) (Stored, error)
	// Ask sends a request for approval and waits for the operator's answer. It fails when ctx ends or the receiver is
	// gone. It is safe for concurrent use.
	Ask(ctx context.Context, invocation string, q contract.ApprovalRequested) (contract.Decision, error)
	// Grant sends a wanted model call. It waits until the call is on disk with its record, and for the decision of the
	// session's and the operator's budgets. It fails when ctx ends or the receiver is gone. It is safe for concurrent
	// use, by one goroutine for each invocation.
	Grant(ctx context.Context, invocation string, w contract.CallWanted) (contract.CallGranted, error)
}
