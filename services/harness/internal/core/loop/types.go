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

// DefaultMaxSteps is the default for the most model calls of a run.
const DefaultMaxSteps = 20

// Start is everything a run depends on.
type Start struct {
	// RunID, SessionID, ProjectID, OperatorID and RequestID identify the run. They never reach a model.
	RunID, SessionID, ProjectID, OperatorID, RequestID string
	// Agent is the agent that runs.
	Agent *compile.Agent
	// LanguageServers are those that the project declares.
	LanguageServers []dsl.LanguageServer
	// Debugging is how the project's programs are debugged.
	Debugging dsl.Debugging
	// Prompts are the contents of prompt files by their path in the snapshot.
	Prompts map[string]string
	// Issue is the number of the session's issue, 0 without one.
	Issue int64
	// Todos are the open todos of that issue.
	Todos contract.OpenTodos
	// Routes say where calls go, by alias.
	Routes map[string]contract.Route
	// MaxSteps and MaxOutputTokens override the agent's; 0 does not.
	MaxSteps, MaxOutputTokens int
	// ProjectRoot is the project's folder, absolute.
	ProjectRoot string
	// History is the conversation so far, oldest first, and Sources its places among the stored messages, in
	// the same order; MessageID is the message that the run writes.
	History   []llm.Message
	Sources   []contract.Source
	MessageID string
	// SupersededTurns is the number of the model's turns that compactions took out of History.
	SupersededTurns int
	// Kept are the stored messages that no compaction may supersede.
	Kept map[string]bool
	// Ledger is the session's so far.
	Ledger contract.Ledger
	// AuditHead is where the record of the session's model requests stands.
	AuditHead contract.AuditHead
	// NoSandbox says that cages are switched off.
	NoSandbox bool
	// OperatorTools are the operator's rules for tools, in order.
	OperatorTools []catalogue.Switch
	// Job is set for an unattended run.
	Job *contract.Job
	// LiveAgents is how many agents of the run may live at once, the root included; 0 leaves it to the limits.
	LiveAgents int
	// Metered says that the session or the operator has a budget, so that [Sink.Grant] may refuse model calls.
	Metered bool
	// First says that the session has had no run before; Injections are the texts that hooks gave its first run.
	First      bool
	Injections []contract.Injection
	// Continued are the invocations of a run that was handed over: those at work, each after its caller.
	Continued []contract.Continued
	// Hold, unless nil, returns when models may be asked. It returns at once from the second time on.
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
	// Hooks take part in compactions and in the beginning of sessions, in this order.
	Hooks []Hook
	// CagesOnly refuses agents without a cage.
	CagesOnly bool
	// Stopping is closed when the service is about to stop, or the run is to be handed over: each invocation stops at its
	// next step boundary, or where it waits for an operator, and the run ends as handed over.
	Stopping <-chan struct{}
	Limits   Limits
	// Pace is shared by all runs of the process.
	Pace *Pace
}

// Limits bound a run. No field is zero.
type Limits struct {
	// Tries is how often the last target of a route is asked before the run fails; one with others after it is
	// asked once.
	Tries int
	// FirstDelay is the time between the first two tries, and doubles from try to try. LongestDelay is the
	// longest there is: a provider that wishes for less is given its wish, one that wishes for more is not
	// waited for.
	FirstDelay, LongestDelay time.Duration
	// Parallel is how many tools of one turn run side by side.
	Parallel int
	// Agents is how many children one turn runs side by side, TurnAgents how many it may call, and LiveAgents the
	// default for how many agents of a run may live at once, the root included.
	Agents, TurnAgents, LiveAgents int
	// CallRepeats is how often an agent may make the same call with the same result in a row before it is told,
	// CycleRepeats the same two or three calls.
	CallRepeats, CycleRepeats int
	// CageLeave is how long the end of a run waits for its cage to end and for its writable folders to be searched.
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
	// Catalogue returns the tools there are.
	Catalogue(ctx context.Context) (catalogue.Tools, error)
	// Run runs one call. A tool that fails is an outcome; an error means that the tool runner could not be
	// asked or broke off, or that the call was cancelled, by the end of ctx or otherwise. The outcome then
	// still holds the tool runner's records of the call, if it gave any. output is called in order, never at
	// the same time, and not after Run has returned.
	Run(ctx context.Context, call ToolRequest, output func(stream, text string)) (ToolOutcome, error)
	// HoldRun announces the caller's run to the workspace until ctx ends, and again after the tool runner was lost.
	// known is called once, when the workspace knows the run or cannot be reached; told with the events of the
	// run's debug sessions, in order.
	HoldRun(ctx context.Context, caller *contract.Caller, known func(), told func(contract.DebugEvent))
	// KeepRun has the workspace keep the caller's run, with its cages and processes, for the next harness that holds it.
	KeepRun(ctx context.Context, caller *contract.Caller) error
	// Hold makes the cage of an agent's invocation, to be known by id, and returns when its policy is checked and its
	// paths are open; [Cage.Opened] tells when it is there. It lives until ctx ends, longer only while background
	// processes run in it. Hold fails with cage_policy_invalid and cage_unavailable if it cannot be made.
	Hold(ctx context.Context, id string, caller *contract.Caller) (Cage, error)
}

// ToolRequest is a call as the tool runner is given it.
type ToolRequest struct {
	// CallID is unique in the session.
	CallID string
	// Tool is the name the model used; Input its parameters as JSON text.
	Tool, Input string
	// Context is the calling agent.
	Context *contract.Caller
	// Grant is the fingerprint of the question an operator approved, or "".
	Grant string
}

// ToolOutcome is the outcome of a call.
type ToolOutcome struct {
	// Content is the text for the model.
	Content string
	// Gist, unless empty, stands for Content where results are compared.
	Gist string
	// Err is the failure, nil if it succeeded.
	Err *fault.Error
	// Audit are the records of the call.
	Audit []contract.Record
	// Duration is how long it took.
	Duration time.Duration
	// CageOver says that the call was ended with the agent's cage; the news of the cage's end follows.
	CageOver bool
	// Question is set instead of all but Audit for a call that was not made because an operator has to allow it.
	Question *contract.Question
}

// Prices knows the prices of models.
type Prices interface {
	// Cost returns the cost of usage, false where the model's prices are not known.
	Cost(target llm.Target, usage llm.Usage) (llm.Cost, bool)
	// MaxOutput returns how many tokens an answer of a model may have, 0 where that is not known.
	MaxOutput(target llm.Target) int
	// Window returns the tokens of a model's context window, 0 for an unknown one.
	Window(target llm.Target) int
}

// Part is one of the two halves of a step.
type Part int

// The halves.
const (
	TurnPart Part = iota + 1
	ResultsPart
)

// Half is a half of a step of an invocation, which has an empty id if it is the root agent's.
type Half struct {
	InvocationID string
	Step         int
	Part         Part
}

// Stored is the answer to a half of a step.
type Stored struct {
	// Routes are set if they have changed.
	Routes map[string]contract.Route
	// Todos are the open todos of the run's issue, with the results of the root agent.
	Todos contract.OpenTodos
	// Steers are the operator's messages that follow the results of the root agent.
	Steers []contract.Steer
}

// Sink is where the events of a run go.
type Sink interface {
	// Emit sends an event. It blocks while the other side does not read, and fails when it is gone; then the
	// run's context ends too. It is safe for concurrent use.
	Emit(contract.Happening) error
	// Stored waits until the turn that was sent is on disk, or until what the next request is made of is known, for
	// results, and returns the answer. It fails when ctx
	// ends or no answer can come any more. It is safe for concurrent use, by one goroutine for each invocation.
	Stored(ctx context.Context, half Half) (Stored, error)
	// Ask sends a request for approval and waits for the operator's answer. It fails when ctx ends or no answer
	// can come any more. It is safe for concurrent use.
	Ask(ctx context.Context, invocation string, q contract.ApprovalRequested) (contract.Decision, error)
	// Grant sends a model call that is wanted and waits until it is on disk with its record, and for the word of the
	// budgets of the session and the operator. It fails when ctx ends or no answer can come any more. It is safe for
	// concurrent use, by one goroutine for each invocation.
	Grant(ctx context.Context, invocation string, w contract.CallWanted) (contract.CallGranted, error)
}
