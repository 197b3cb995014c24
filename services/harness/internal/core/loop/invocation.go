package loop

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"kaged.dev/pkg/compile"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/services/harness/internal/core/budget"
	"kaged.dev/services/harness/internal/core/compact"
)

// limitText closes the message of a run that reached its step limit while the model still wanted tools.
const limitText = "Stopped: maximum iteration limit reached."

// invocation is one call of an agent: the root agent is called by the operator, a child by its parent. It belongs to
// one goroutine, except for emit and the fields that mu guards.
type invocation struct {
	*Tree
	// id is empty for the root agent, and its parent is nil. callID is the id of the parent's tool call.
	id, callID string
	prompt     string // the parent's prompt
	parent     *invocation
	continued  *contract.Continued // state of a handed over run; nil for a new invocation
	agent      *compile.Agent
	history    []llm.Message
	sources    []contract.Source
	head       contract.AuditHead
	account    *budget.Account
	held       *budget.Reservation // reservation of the last model call; nil before the first

	pipeline    pipeline
	sealed      snapshot // of the last request that left the pipeline
	system      []string
	tools       []llm.Tool
	offers      map[string]offer // by the name that the model sees
	toolContext *contract.Caller
	todos       contract.OpenTodos
	maxSteps    int
	maxOutput   int
	cacheKey    string
	memory      *llm.Memory // cache of the drivers; may be nil
	carried     *Carried    // from the session's last run; may be nil
	carry       *Carried    // for the session's next run; may be nil
	broke       bool        // the invocation panicked

	talk     *compact.Conversation
	room     room
	keptIDs  map[string]bool     // stored messages that no compaction may supersede
	mute     bool                // emit drops all events but model calls, records, budgets and compactions
	callIDs  map[string]struct{} // ids of all calls in the conversation
	step     int
	begun    bool         // a model has accepted a request
	told     bool         // the start of the invocation was sent
	kept     []*keptBlock // blocks of the incoming answer
	broken   brokenOff    // retracted answers of the current turn
	said     string       // text of the last turn with text
	asked    int64        // size of the last request in bytes
	calls    int          // number of requests with a reservation
	settled  int          // number of the last settled request
	answered sized        // last answered request

	repeats repeats // repeated tool calls

	cage *held                   // may be nil
	quit context.CancelCauseFunc // cancels the invocation's context

	fin      contract.Finished
	streamed time.Duration // time of all model calls
	unpriced bool          // a call has no known cost

	mu    sync.Mutex // guards the fields below
	files map[string]struct{}
	below sums
}

// run runs the agent to its end and returns its outcome, also after a panic.
func (v *invocation) run(ctx context.Context) (fin contract.Finished) {
	ctx, v.quit = context.WithCancelCause(ctx)
	defer v.quit(nil)
	if v.continued != nil {
		v.account.Worked(time.Duration(v.continued.WorkedMS) * time.Millisecond)
	}
	defer v.account.Start(func(over *fault.Error) { v.quit(over) })()
	defer func() {
		if v.held != nil {
			// The last call is unsettled only after a panic; settling again has no effect. A failing sink is ignored: the
			// run has ended.
			_ = v.settle(v.held.Amount(), true, false)
			v.held.Settle(v.held.Amount())
		}
	}()
	defer v.leaveCage()
	if v.carried != nil && v.carried.memory != nil {
		v.memory = v.carried.memory
	} else if v.deps.Memories != nil {
		v.memory = v.deps.Memories.New()
	}
	if v.parent != nil && v.memory != nil {
		defer v.memory.Drop() // that of the root agent ends with [invocation.carryOn]
	}
	ctx, over := v.deps.Watch.Agent(ctx, v.seen())
	defer func() { over(fin) }()
	defer func() {
		if p := recover(); p != nil {
			v.deps.Log.ErrorContext(ctx, "run panicked", "run_id", v.start.RunID, "panic", p, "stack", string(debug.Stack()))
			v.broke = true
			f := fault.New(fault.Internal, "Something went wrong inside kaged; the log has the cause.")
			fin = v.end(context.WithoutCancel(ctx), f)
		}
	}()
	if v.parent != nil {
		defer v.cancelable(v.id, v.quit)()
	}
	if err := v.begin(ctx); err != nil {
		return v.end(ctx, err)
	}
	if more, err := v.proceed(ctx); err != nil {
		return v.end(ctx, err)
	} else if !more {
		v.fin.Outcome = contract.Completed
		return v.fin
	}
	for v.step++; ; v.step++ {
		inside, over := v.deps.Watch.Step(ctx, v.step)
		more, err := v.oneStep(inside)
		over(err)
		if err != nil {
			return v.end(ctx, err)
		}
		if !more {
			v.fin.Outcome = contract.Completed
			return v.fin
		}
	}
}

func (v *invocation) emit(e contract.Event) error {
	if v.mute {
		switch e.(type) {
		case contract.CallWanted, contract.CallSettled, contract.Record, contract.BudgetState, contract.Compaction:
		default:
			return nil
		}
	}
	return v.sink.Emit(contract.Happening{InvocationID: v.id, Event: e})
}

// begin prepares the first step: the prompt, the tools, the workspace, the hooks' texts and the cage.
func (v *invocation) begin(ctx context.Context) error {
	err := v.prepare(ctx)
	if v.parent != nil && v.continued == nil {
		if gone := v.tell(); gone != nil {
			return gone
		}
	} else if v.parent == nil && err == nil {
		v.enterWorkspace(ctx)
	}
	if err == nil {
		err = v.startSession(ctx)
	}
	if err == nil {
		err = v.enterCage(ctx)
	}
	if err != nil && v.parent != nil && v.continued == nil {
		return notStarted(v.agent, err)
	}
	return err
}

// prepare builds the invocation's caller, system prompt, conversation, limits, pipeline and tools. It fails for an
// agent without a prompt file, and for a conversation without a message to answer.
func (v *invocation) prepare(ctx context.Context) error {
	v.toolContext = &contract.Caller{
		Job: v.start.Job, SessionID: v.start.SessionID, RunID: v.start.RunID, RequestID: v.start.RequestID,
		InvocationID: v.id, Agent: v.agent.Path, ProjectID: v.start.ProjectID, Root: v.start.ProjectRoot,
		OperatorID: v.start.OperatorID, Cage: v.agent.Cage, ProjectCaged: v.start.Agent.AnyCaged(),
		LanguageServers: v.start.LanguageServers, Debugging: v.start.Debugging,
		ApproveWrites: v.agent.ApproveWrites,
	}
	if v.parent == nil { // a child knows the issue only from its parent's prompt
		v.toolContext.Issue, v.todos = v.start.Issue, v.start.Todos
	}
	prompt, ok := v.start.Prompts[v.agent.PromptPath]
	if !ok {
		path := v.agent.PromptPath
		return fault.New(fault.PromptNotFound, "Prompt file not found: ./%s", path).With("path", path)
	}
	if prompt != "" {
		v.system = []string{valid(prompt)}
	}
	if text := v.start.Prompts[dsl.InstructionsPath]; v.agent.AgentsMD && text != "" {
		v.system = append(v.system, valid(text))
	}
	if v.parent != nil && v.start.Issue != 0 {
		v.system = append(v.system, proposalText)
	}
	missing := v.offerTools(ctx)
	v.continueTalk()
	messages := v.talk.Messages()
	if n := len(messages); !v.mute && (n == 0 || messages[n-1].Role == llm.RoleAssistant) {
		return fault.New(fault.BadRequest, "There is no message for the agent to answer.")
	}
	v.maxSteps, v.maxOutput = cmp.Or(v.agent.MaxSteps, DefaultMaxSteps), v.agent.MaxOutputTokens
	if v.parent == nil {
		v.maxSteps = cmp.Or(v.start.MaxSteps, v.maxSteps)
		v.maxOutput = cmp.Or(v.start.MaxOutputTokens, v.maxOutput)
	}
	sum := sha256.Sum256([]byte("kaged session " + v.start.SessionID + " " + v.agent.Path))
	v.cacheKey = hex.EncodeToString(sum[:16])
	fit := &fitter{}
	conceal := &concealer{run: v, forms: v.agent.Policy == nil || !v.agent.Policy.ShowSecrets}
	audit := &auditProcessor{emit: v.emit, agentPath: v.agent.Path, invocation: v.id, head: v.head}
	v.resumeStages(fit, conceal, audit)
	v.pipeline = pipeline{fit, &reminder{invocation: v}, conceal, audit}
	if v.agent.Policy != nil {
		v.pipeline = append(v.pipeline, newPolicyProcessor(v, v.agent.Policy))
	}
	v.pipeline = append(v.pipeline, &observer{run: v})
	return missing
}

func (v *invocation) request() llm.Request {
	return llm.Request{
		System: v.system, Messages: v.talk.Messages(), Tools: v.tools, MaxOutputTokens: v.maxOutput,
		CacheKey: v.cacheKey, Memory: v.memory, Agent: v.agent.Path, Superseded: v.room.superseded,
	}
}

// oneStep makes one model call and runs the tools that it asks for. It reports whether another step follows.
func (v *invocation) oneStep(ctx context.Context) (more bool, err error) {
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	if v.stopping() {
		return false, errHandOver
	}
	v.broken = brokenOff{}
	ans, err := v.generate(ctx)
	own := v.measure(ans)
	stats := own
	v.broken.addTo(&stats)
	if err != nil {
		return false, err
	}
	v.kept = nil
	v.said = cmp.Or(textOf(ans.done.Blocks), v.said)
	calls := callsOf(ans.done.Blocks)
	turn := contract.TurnDone{
		Turn: contract.Turn{
			Step: v.step, Blocks: ans.done.Blocks, Stop: ans.done.Stop, Usage: v.broken.usage.Add(*ans.used), Stats: &stats,
			Provider: ans.target.Provider, Model: ans.target.Model,
		},
		Wait: slices.ContainsFunc(calls, func(c llm.ToolCall) bool {
			return !v.parallel(c) && v.offers[c.Name].child == nil
		}),
	}
	used := v.used(ans) // retracted answers are settled already
	if err = v.settle(used, false, true); err == nil {
		err = v.emit(turn)
	}
	v.held.Settle(used)
	if err == nil {
		err = v.showBudgets(false)
	}
	if err != nil {
		return false, err
	}
	v.fin.Steps, v.fin.Stop = v.step, ans.done.Stop
	v.log(ctx, turn, calls)
	if len(calls) == 0 {
		return false, v.awaitCage(ctx)
	}
	return v.finishStep(ctx, ans.done.Blocks, calls)
}

// finishStep runs the tools of a turn and waits until their results are stored.
func (v *invocation) finishStep(ctx context.Context, turn []llm.Block, calls []llm.ToolCall) (more bool, err error) {
	// A failed cage ends ctx, and then no call is made.
	_ = v.awaitCage(ctx)
	results, err := v.runTools(ctx, calls)
	if err != nil {
		return false, err
	}
	last := v.step >= v.maxSteps || v.repeats.over != nil
	if err := v.emit(contract.StepDone{Step: v.step, Last: last}); err != nil {
		return false, err
	}
	if v.cage != nil && v.cage.over.Load() {
		<-ctx.Done() // the end of the cage cancels ctx; no further model call is made
	}
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	if v.repeats.over != nil {
		return false, v.repeats.over
	}
	if v.step >= v.maxSteps {
		v.fin.ClosingText = limitText
		return false, nil
	}
	v.talk.Append(v.source(),
		llm.Message{Role: llm.RoleAssistant, Blocks: turn}, llm.Message{Role: llm.RoleTool, Blocks: results})
	return true, v.awaitStored(ctx, ResultsPart)
}

// textOf returns the joined text blocks.
func textOf(blocks []llm.Block) string {
	var text strings.Builder
	for _, b := range blocks {
		if b.Text != nil {
			text.WriteString(b.Text.Text)
		}
	}
	return text.String()
}

func callsOf(blocks []llm.Block) []llm.ToolCall {
	var calls []llm.ToolCall
	for _, b := range blocks {
		if b.Call != nil {
			calls = append(calls, *b.Call)
		}
	}
	return calls
}

// awaitStored waits for storage and applies the routes, todos and steers of its answer.
func (v *invocation) awaitStored(ctx context.Context, part Part) error {
	stored, err := v.sink.Stored(ctx, Half{InvocationID: v.id, Step: v.step, Part: part})
	v.reroute(stored.Routes)
	if part == ResultsPart {
		v.todos = stored.Todos
	}
	for _, s := range stored.Steers {
		words := []llm.Block{{Text: &llm.Text{Text: valid(s.Text)}}}
		v.talk.Append(contract.Source{MessageID: s.MessageID}, llm.Message{Role: llm.RoleUser, Blocks: words})
	}
	return err
}

//convert:one messageStart llm.Target contract.MessageStart >StartedAt=time.Now().UnixMilli()

// started emits the answering model, once per invocation.
func (v *invocation) started(target llm.Target) error {
	if v.begun {
		return nil
	}
	v.begun = true
	return v.emit(messageStart(target))
}

// measure adds a model call to the invocation's totals and returns the call's own stats. An unaccepted call is not
// added.
func (v *invocation) measure(ans answer) llm.Stats {
	stats := llm.Stats{Duration: llm.Milliseconds(ans.duration)}
	if ans.ttft != nil {
		ttft := llm.Milliseconds(*ans.ttft)
		stats.TTFT = &ttft
	}
	if !ans.accepted {
		return stats
	}
	sum := v.fin.Stats
	if sum == nil {
		sum = &llm.Stats{TTFT: stats.TTFT}
		v.fin.Stats = sum
	}
	v.streamed += ans.duration
	sum.Duration = llm.Milliseconds(v.streamed)
	if ans.used != nil {
		v.fin.Usage = v.fin.Usage.Add(*ans.used)
		stats.TPS = perSecond(ans.used.Output, ans.duration)
		v.price(&stats, sum, ans.target, *ans.used)
	}
	sum.TPS = perSecond(v.fin.Usage.Output, v.streamed)
	return stats
}

// price sets the call's cost and the invocation's total. The total is nil if any call is unpriced.
func (v *invocation) price(stats, sum *llm.Stats, target llm.Target, usage llm.Usage) {
	cost, known := v.deps.Prices.Cost(target, usage)
	if !known {
		v.unpriced, sum.Cost = true, nil
		return
	}
	stats.Cost = &cost
	if v.unpriced {
		return
	}
	total := cost
	if sum.Cost != nil {
		total = sum.Cost.Add(cost)
	}
	sum.Cost = &total
}

func perSecond(tokens int64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(tokens) / d.Seconds()
}

// log writes one line for every model call. It needs no telemetry.
func (v *invocation) log(ctx context.Context, turn contract.TurnDone, calls []llm.ToolCall) {
	names := make([]string, len(calls))
	for i, c := range calls {
		names[i] = v.canonicalName(c.Name)
	}
	u := turn.Usage
	v.deps.Log.LogAttrs(ctx, slog.LevelInfo, "agent.generation",
		slog.String("event", "agent.generation"),
		slog.String("session_id", v.start.SessionID),
		slog.String("run_id", v.start.RunID),
		slog.String("agent", v.agent.Path),
		slog.String("model", turn.Provider+":"+turn.Model),
		slog.Int64("tokens_in", u.Input+u.CacheRead+u.CacheWrite),
		slog.Int64("tokens_out", u.Output),
		slog.Int64("duration_ms", int64(turn.Stats.Duration)),
		slog.Any("tool_calls", names),
		slog.String("timestamp", time.Now().UTC().Format("2006-01-02T15:04:05.000Z")),
	)
}

// end returns the outcome of an invocation that failed with err. The cause of an ended ctx replaces err.
func (v *invocation) end(ctx context.Context, err error) contract.Finished {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if errors.Is(err, errHandOver) {
		v.fin.Outcome = contract.HandedOver
		return v.fin
	}
	f := fault.From(err)
	v.fin.Partial = keptBlocks(v.kept)
	if f.Code == fault.Cancelled {
		v.fin.Outcome, v.fin.Stop, v.fin.Detail = contract.Cancelled, llm.StopAborted, detail(f)
		return v.fin
	}
	v.fin.Outcome, v.fin.Stop = contract.Failed, llm.StopError
	v.fin.Err, v.fin.Detail = explain(f), detail(f)
	return v.fin
}
