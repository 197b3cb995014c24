package loop

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/services/harness/internal/core"
)

// limitText closes a message whose run reached its step limit while the model still wanted tools.
const limitText = "Stopped: maximum iteration limit reached."

// errStopping ends a run whose service stops. What it finished is kept, and the operator's crash policy says what follows.
var errStopping = fault.New(fault.Interrupted, "kaged was stopped while the run was under way.")

// Stopped is the cause for the end of a run's context when its service stops.
func Stopped() error { return errStopping }

// run is one run on its way. It belongs to one goroutine, but for emit.
type run struct {
	deps  Deps
	start Start
	sink  Sink
	agent *core.Agent

	pipeline    pipeline
	system      []string
	tools       []llm.Tool
	offers      map[string]offer // by the name the model is shown
	toolContext *ToolContext
	maxSteps    int
	maxOutput   int
	cacheKey    string

	routes   map[string]Route
	messages []llm.Message
	callIDs  map[string]struct{} // of the whole conversation
	step     int
	begun    bool         // a model has accepted a request
	skipped  []string     // targets whose being unusable was announced
	kept     []*keptBlock // of the answer that is coming in

	cage *held                   // nil for none
	quit context.CancelCauseFunc // ends the run

	fin      Finished
	unpriced bool // a call's cost is not known
}

// offer is a tool as the model is shown it.
type offer struct {
	canonical string
	parallel  bool
}

// Run runs an agent to its end. It returns how it ended, whatever happens: a defect inside is a failed run.
func Run(ctx context.Context, deps Deps, start Start, sink Sink) (fin Finished) {
	ctx, quit := context.WithCancelCause(ctx)
	defer quit(nil)
	r := &run{deps: deps, start: start, sink: sink, agent: start.Agent, routes: start.Routes, callIDs: map[string]struct{}{}, quit: quit}
	defer r.leaveCage()
	defer func() {
		if p := recover(); p != nil {
			deps.Log.ErrorContext(ctx, "run panicked", "run_id", start.RunID, "panic", p, "stack", string(debug.Stack()))
			fin = r.end(context.WithoutCancel(ctx), fault.New(fault.Internal, "Something went wrong inside kaged; the log has the cause."))
		}
	}()
	if err := r.prepare(ctx); err != nil {
		return r.end(ctx, err)
	}
	for r.step = 1; ; r.step++ {
		more, err := r.oneStep(ctx)
		if err != nil {
			return r.end(ctx, err)
		}
		if !more {
			r.fin.Outcome = Completed
			return r.fin
		}
	}
}

func (r *run) emit(e Event) error { return r.sink.Emit(e) }

// prepare resolves what the run needs and refuses what it cannot run.
func (r *run) prepare(ctx context.Context) error {
	prompt, ok := r.start.Prompts[r.agent.PromptPath]
	if !ok {
		return fault.New(fault.PromptNotFound, "Prompt file not found: ./%s", r.agent.PromptPath).With("path", r.agent.PromptPath)
	}
	if prompt != "" {
		r.system = []string{valid(prompt)}
	}
	r.messages = llm.Normalize(r.start.History)
	if n := len(r.messages); n == 0 || r.messages[n-1].Role == llm.RoleAssistant {
		return fault.New(fault.BadRequest, "There is no message for the agent to answer.")
	}
	for _, m := range r.messages {
		for _, b := range m.Blocks {
			if b.Call != nil {
				r.callIDs[b.Call.ID] = struct{}{}
			}
		}
	}
	r.maxSteps = cmp.Or(r.start.MaxSteps, r.agent.MaxSteps, DefaultMaxSteps)
	r.maxOutput = cmp.Or(r.start.MaxOutputTokens, r.agent.MaxOutputTokens)
	sum := sha256.Sum256([]byte("kaged session " + r.start.SessionID + " " + r.agent.Path))
	r.cacheKey = hex.EncodeToString(sum[:16])
	r.pipeline = pipeline{&auditProcessor{emit: r.emit, agentPath: r.agent.Path, head: r.start.AuditHead}}
	if err := r.offerTools(ctx); err != nil {
		return err
	}
	return r.enterCage(ctx)
}

// offerTools looks up what the model is told about the agent's tools. What the operator has turned off since the snapshot
// was made is left out.
func (r *run) offerTools(ctx context.Context) error {
	r.offers = map[string]offer{}
	r.toolContext = &ToolContext{
		Job: r.start.Job, SessionID: r.start.SessionID, RunID: r.start.RunID, RequestID: r.start.RequestID, Caller: r.agent.Path,
		ProjectID: r.start.ProjectID, ProjectRoot: r.start.ProjectRoot, OperatorID: r.start.OperatorID,
		Cage: r.agent.Cage,
	}
	if len(r.agent.Tools) == 0 {
		return nil
	}
	catalogue, err := r.deps.Tools.Catalogue(ctx)
	if err != nil {
		return err
	}
	for i := range catalogue {
		t := &catalogue[i]
		if !slices.Contains(r.agent.Tools, t.Name) || core.TurnedOff(r.start.OperatorTools, t) {
			continue
		}
		shown := llm.Tool{Name: t.Name, Description: t.Description, Schema: t.Schema}
		if alias := t.Alias(r.agent.Aliases[t.Name]); alias != nil {
			shown = llm.Tool{Name: alias.Name, Description: alias.Description, Schema: alias.Schema}
		}
		r.tools = append(r.tools, shown)
		r.offers[shown.Name] = offer{t.Name, t.Parallel}
		r.toolContext.Tools = append(r.toolContext.Tools, t.Name)
	}
	return nil
}

func (r *run) canonicalName(name string) string {
	if o, ok := r.offers[name]; ok {
		return o.canonical
	}
	return name
}

func (r *run) request() llm.Request {
	return llm.Request{
		System: r.system, Messages: slices.Clip(r.messages), Tools: r.tools, MaxOutputTokens: r.maxOutput, CacheKey: r.cacheKey,
		Hold: r.start.Hold,
	}
}

// oneStep makes one model call and runs the tools it asks for. It reports whether another step follows.
func (r *run) oneStep(ctx context.Context) (more bool, err error) {
	select {
	case <-r.deps.Stopping:
		return false, errStopping
	default:
	}
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	ans, err := r.generate(ctx)
	stats := r.measure(ans)
	if err != nil {
		return false, err
	}
	r.kept = nil
	calls := callsOf(ans.done.Blocks)
	turn := Turn{
		Step: r.step, Blocks: ans.done.Blocks, Stop: ans.done.Stop, Usage: ans.done.Usage, Stats: stats, Target: ans.target,
		Wait: slices.ContainsFunc(calls, func(c llm.ToolCall) bool { return !r.parallel(c.Name) }),
	}
	if err := r.emit(turn); err != nil {
		return false, err
	}
	r.fin.Steps, r.fin.Stop = r.step, ans.done.Stop
	r.log(ctx, turn, calls)
	if len(calls) == 0 {
		return false, nil
	}
	return r.finishStep(ctx, ans.done.Blocks, calls)
}

// finishStep runs the tools of a turn and waits until their results are stored.
func (r *run) finishStep(ctx context.Context, turn []llm.Block, calls []llm.ToolCall) (more bool, err error) {
	results, err := r.runTools(ctx, calls)
	if err != nil {
		return false, err
	}
	if err := r.emit(StepDone{Step: r.step}); err != nil {
		return false, err
	}
	if r.cage != nil && r.cage.over.Load() {
		<-ctx.Done() // the end of the cage is on its way; no model is asked any more
	}
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	if r.step >= r.maxSteps {
		r.fin.ClosingText = limitText
		return false, nil
	}
	r.messages = append(r.messages, llm.Message{Role: llm.RoleAssistant, Blocks: turn}, llm.Message{Role: llm.RoleTool, Blocks: results})
	return true, r.awaitStored(ctx, ResultsPart)
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

// awaitStored waits for storage and takes over the routes that come with the answer.
func (r *run) awaitStored(ctx context.Context, part Part) error {
	routes, err := r.sink.Stored(ctx, r.step, part)
	if routes != nil {
		r.routes = routes
	}
	return err
}

// started says, once per run, which model answers.
func (r *run) started(target llm.Target) error {
	if r.begun {
		return nil
	}
	r.begun = true
	return r.emit(MessageStart{Target: target, StartedAt: time.Now()})
}

// measure adds a model call to the sums and returns its own measures. A call that nobody accepted was none.
func (r *run) measure(ans answer) Stats {
	stats := Stats{TTFT: ans.ttft, Duration: ans.duration}
	if !ans.accepted {
		return stats
	}
	sum := r.fin.Stats
	if sum == nil {
		sum = &Stats{TTFT: ans.ttft}
		r.fin.Stats = sum
	}
	sum.Duration += ans.duration
	if ans.done != nil {
		usage := ans.done.Usage
		r.fin.Usage = r.fin.Usage.Add(usage)
		stats.TPS = perSecond(usage.Output, stats.Duration)
		r.price(&stats, sum, ans.target, usage)
	}
	sum.TPS = perSecond(r.fin.Usage.Output, sum.Duration)
	return stats
}

// price adds what a call cost. A sum with a part that is not known is not known.
func (r *run) price(stats, sum *Stats, target llm.Target, usage llm.Usage) {
	cost, known := r.deps.Prices.Cost(target, usage)
	if !known {
		r.unpriced, sum.Cost = true, nil
		return
	}
	stats.Cost = &cost
	if r.unpriced {
		return
	}
	total := cost
	if sum.Cost != nil {
		total = sum.Cost.add(cost)
	}
	sum.Cost = &total
}

func perSecond(tokens int64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(tokens) / d.Seconds()
}

// log writes the line that every model call leaves in the log, also where nothing else is watched.
func (r *run) log(ctx context.Context, turn Turn, calls []llm.ToolCall) {
	names := make([]string, len(calls))
	for i, c := range calls {
		names[i] = r.canonicalName(c.Name)
	}
	u := turn.Usage
	r.deps.Log.LogAttrs(ctx, slog.LevelInfo, "agent.generation",
		slog.String("event", "agent.generation"),
		slog.String("session_id", r.start.SessionID),
		slog.String("run_id", r.start.RunID),
		slog.String("agent", r.agent.Path),
		slog.String("model", turn.Target.Provider+":"+turn.Target.Model),
		slog.Int64("tokens_in", u.Input+u.CacheRead+u.CacheWrite),
		slog.Int64("tokens_out", u.Output),
		slog.Int64("duration_ms", turn.Stats.Duration.Milliseconds()),
		slog.Any("tool_calls", names),
		slog.String("timestamp", time.Now().UTC().Format("2006-01-02T15:04:05.000Z")),
	)
}

// end returns the end of a run that could not go on. The end of ctx is the reason where there is one.
func (r *run) end(ctx context.Context, err error) Finished {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	f := fault.From(err)
	r.fin.Partial = keptBlocks(r.kept)
	if f.Code == fault.Cancelled {
		r.fin.Outcome, r.fin.Stop, r.fin.Detail = Cancelled, llm.StopAborted, detail(f)
		return r.fin
	}
	r.fin.Outcome, r.fin.Stop = Failed, llm.StopError
	r.fin.Err, r.fin.Detail = explain(f), detail(f)
	return r.fin
}
