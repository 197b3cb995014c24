package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kaged.dev/pkg/catalogue"
	"kaged.dev/pkg/compile"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/toolcall"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// model is a driver that plays one answer per call.
type model struct {
	t       *testing.T
	answers []play

	mu       sync.Mutex // guards requests
	requests []llm.Request
}

// play is one answer: it yields events and then returns, with an error for a failed call.
type play func(ctx context.Context, yield func(llm.Event) bool) error

func (m *model) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		if err := req.Hold(ctx, llm.Body{}); err != nil {
			yield(llm.Event{}, err)
			return
		}
		m.mu.Lock()
		n := len(m.requests)
		m.requests = append(m.requests, req)
		m.mu.Unlock()
		if n >= len(m.answers) {
			m.t.Errorf("the model was called %d times, %d answers are there", n+1, len(m.answers))
			yield(llm.Event{}, fault.New(fault.ScriptMismatch, "no answer"))
			return
		}
		stopped := false
		err := m.answers[n](ctx, func(ev llm.Event) bool {
			stopped = stopped || !yield(ev, nil)
			return !stopped
		})
		var partly received
		if errors.As(err, &partly) {
			err = partly.error
		}
		if err != nil && !stopped {
			yield(llm.Event{Received: partly.bytes}, err)
		}
	}
}

// received is the error of a call that broke off after some bytes of its answer.
type received struct {
	error
	bytes int
}

func (m *model) calls() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.requests)
}

var used = llm.Usage{Input: 10, Output: 5, CacheRead: 2}

// says answers with text.
func says(text string) play {
	return func(_ context.Context, yield func(llm.Event) bool) error {
		_ = yield(llm.Event{Accepted: &llm.Accepted{}}) && yield(llm.Event{TextDelta: text}) &&
			yield(llm.Event{Done: &llm.Done{Blocks: []llm.Block{{Text: &llm.Text{Text: text}}}, Stop: llm.StopEnd, Usage: used}})
		return nil
	}
}

// wants answers with tool calls.
func wants(calls ...llm.ToolCall) play {
	return func(_ context.Context, yield func(llm.Event) bool) error {
		var blocks []llm.Block
		for _, c := range calls {
			blocks = append(blocks, llm.Block{Call: &c})
		}
		_ = yield(llm.Event{Accepted: &llm.Accepted{}}) &&
			yield(llm.Event{Done: &llm.Done{Blocks: blocks, Stop: llm.StopToolUse, Usage: used}})
		return nil
	}
}

func call(id, name, input string) llm.ToolCall { return llm.ToolCall{ID: id, Name: name, Input: input} }

// fails returns an error before the call is accepted.
func fails(err error) play {
	return func(context.Context, func(llm.Event) bool) error { return err }
}

// tools is a tool runner with functions as its tools.
type tools struct {
	run map[string]func(ctx context.Context, input string) (string, error)

	// records are further records of calls, by tool.
	records map[string]contract.Record

	// hold makes cages; nil refuses them.
	hold func(ctx context.Context, id string, caller *contract.Caller) (Cage, error)

	// holding, unless nil, delays the hold of the run until it is closed.
	holding chan struct{}

	mu    sync.Mutex // guards the fields below
	held  []string   // ids of the held runs
	kept  []string   // ids of the kept runs
	tell  func(contract.DebugEvent)
	seen  []ToolRequest
	asked int
}

// KeepRun stores the run's id.
func (f *tools) KeepRun(_ context.Context, caller *contract.Caller) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kept = append(f.kept, caller.RunID)
	return nil
}

// HoldRun stores the run's id while the hold lasts.
func (f *tools) HoldRun(ctx context.Context, caller *contract.Caller, known func(), told func(contract.DebugEvent)) {
	f.mu.Lock()
	f.tell = told
	f.held = append(f.held, caller.RunID)
	f.mu.Unlock()
	if f.holding != nil {
		<-f.holding
	}
	known()
	<-ctx.Done()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = f.held[:len(f.held)-1]
}

func (f *tools) Hold(ctx context.Context, id string, caller *contract.Caller) (Cage, error) {
	if f.hold == nil {
		return nil, fault.New(fault.CageUnavailable, "There are no cages here.")
	}
	return f.hold(ctx, id, caller)
}

func (f *tools) Catalogue(context.Context) (catalogue.Tools, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	schema := json.RawMessage(`{"type":"object"}`)
	return catalogue.Tools{
		{
			Name: "file.read", Description: "Reads.", Schema: schema, Parallel: true, DefaultRoot: true,
			Aliases: []catalogue.Alias{{Name: "read_file", Description: "Reads, too.", Schema: schema}},
		},
		{Name: "file.write", Description: "Writes.", Schema: schema},
		{Name: "shell.bash", Description: "Runs.", Schema: schema},
		{
			Name: "shell.process", Description: "Handles.", Schema: schema,
			ReadWhen: toolcall.When{{{Parameter: "action", Values: []string{"list"}}}},
			WaitWhen: toolcall.When{{{Parameter: "action", Values: []string{"poll"}}}},
		},
	}, nil
}

func (f *tools) Run(ctx context.Context, req ToolRequest, output func(stream, text string)) (ToolOutcome, error) {
	f.mu.Lock()
	f.seen = append(f.seen, req)
	run := f.run[req.Tool]
	f.mu.Unlock()
	if run == nil {
		e := fault.New(fault.ToolNotFound, "There is no tool %q for this agent.", req.Tool)
		return ToolOutcome{Content: e.ToolError(), Err: e}, nil
	}
	output("stdout", "running "+req.Tool)
	content, err := run(ctx, req.Input)
	if content == "cage over" {
		return ToolOutcome{Content: content, CageOver: true}, nil
	}
	if err != nil && ctx.Err() != nil {
		return ToolOutcome{}, ctx.Err()
	}
	if e := fault.From(err); e != nil {
		if e.Code == fault.Cancelled {
			return ToolOutcome{Audit: []contract.Record{{Type: "known"}}}, err
		}
		if e.Code == fault.Unavailable || e.Code == fault.Interrupted {
			return ToolOutcome{}, err
		}
		return ToolOutcome{Content: e.ToolError(), Err: e}, nil
	}
	audit := []contract.Record{{Type: "tool.called"}}
	if r, ok := f.records[req.Tool]; ok {
		audit = append(audit, r)
	}
	return ToolOutcome{Content: content, Audit: audit, Duration: time.Millisecond}, nil
}

// sink stores a run's events and answers its questions.
type sink struct {
	mu     sync.Mutex // guards events
	events []contract.Event
	whose  []string // invocation id of each event
	onEmit func(contract.Event) error
	// store answers a wait for storage; nil confirms it.
	store func(ctx context.Context, half Half) (Stored, error)
	// grant answers a wanted call; nil grants it.
	grant func(ctx context.Context, w contract.CallWanted) (contract.CallGranted, error)
	// answer answers a request for approval; nil waits for ctx.
	answer func(ctx context.Context, q contract.ApprovalRequested) (contract.Decision, error)
}

func (s *sink) Grant(ctx context.Context, invocation string, w contract.CallWanted) (contract.CallGranted, error) {
	if err := s.Emit(contract.Happening{InvocationID: invocation, Event: w}); err != nil {
		return contract.CallGranted{}, err
	}
	if s.grant != nil {
		return s.grant(ctx, w)
	}
	return contract.CallGranted{Call: w.Call}, nil
}

func (s *sink) Ask(ctx context.Context, invocation string, q contract.ApprovalRequested) (contract.Decision, error) {
	if err := s.Emit(contract.Happening{InvocationID: invocation, Event: q}); err != nil {
		return contract.Decision{}, err
	}
	if s.answer != nil {
		return s.answer(ctx, q)
	}
	<-ctx.Done()
	return contract.Decision{}, ctx.Err()
}

func (s *sink) Emit(h contract.Happening) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := h.Event
	s.events = append(s.events, e)
	s.whose = append(s.whose, h.InvocationID)
	if s.onEmit != nil {
		return s.onEmit(e)
	}
	return nil
}

// asked marks, among the events, a wait for storage.
type asked struct {
	contract.Event // makes it an event; nil
	step           int
	part           Part
}

func (s *sink) Stored(ctx context.Context, half Half) (Stored, error) {
	s.mu.Lock()
	s.events = append(s.events, asked{step: half.Step, part: half.Part})
	s.whose = append(s.whose, half.InvocationID)
	s.mu.Unlock()
	if ctx.Err() != nil {
		return Stored{}, ctx.Err()
	}
	if s.store != nil {
		return s.store(ctx, half)
	}
	return Stored{}, nil
}

// of returns the events of one type.
func of[E contract.Event](s *sink) []E {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []E
	for _, e := range s.events {
		if e, ok := e.(E); ok {
			out = append(out, e)
		}
	}
	return out
}

// story returns the names of a run's events in order, without records.
func (s *sink) story() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, e := range s.events {
		switch e := e.(type) {
		case contract.MessageStart:
			out = append(out, "start "+e.Provider+":"+e.Model)
		case contract.Delta:
			out = append(out, "delta "+e.Text)
		case contract.ToolStarted:
			out = append(out, "call "+e.Call.ID)
		case contract.ToolFinished:
			out = append(out, "result "+e.Result.CallID)
		case contract.TurnDone:
			out = append(out, "turn")
		case contract.StepDone:
			out = append(out, "done")
		case contract.Retracted:
			out = append(out, fmt.Sprintf("retract %d", e.Step))
		case contract.Retry:
			out = append(out, "retry "+e.Provider)
		case asked:
			out = append(out, map[Part]string{TurnPart: "turn stored?", ResultsPart: "results stored?"}[e.part])
		}
	}
	return out
}

// opener returns models by provider.
type opener map[string]*model

func (o opener) Open(t llm.Target) (llm.Driver, error) {
	if m, ok := o[t.Provider]; ok {
		return m, nil
	}
	return nil, fault.New(fault.ProviderNotConfigured, "no driver %s", t.Provider)
}

// flat prices every token at one US dollar, and leaves one model unpriced.
type flat struct{}

func (flat) Cost(t llm.Target, u llm.Usage) (llm.Cost, bool) {
	if t.Model == "unpriced" {
		return llm.Cost{}, false
	}
	c := llm.Cost{Input: float64(u.Input), Output: float64(u.Output)}
	c.Total = c.Input + c.Output
	return c, true
}

// Window returns a small window for one model, none for another, and a wide one for the rest.
func (flat) Window(t llm.Target) int {
	switch t.Model {
	case "narrow":
		return 4000
	case "small":
		return 8000
	case "unknown":
		return 0
	}
	return 100_000_000
}

func (flat) MaxOutput(t llm.Target) int {
	if t.Model == "short" {
		return 100
	}
	return 0
}

// bench holds the parts of a run before it starts.
type bench struct {
	t     *testing.T
	deps  Deps
	start Start
	model *model
	tools *tools
	sink  *sink
}

func newBench(t *testing.T, answers ...play) *bench {
	b := &bench{t: t, model: &model{t: t, answers: answers}, tools: &tools{}, sink: &sink{}}
	b.tools.run = map[string]func(context.Context, string) (string, error){
		"file.read":  func(_ context.Context, in string) (string, error) { return "read " + in, nil },
		"read_file":  func(_ context.Context, in string) (string, error) { return "read " + in, nil },
		"file.write": func(_ context.Context, in string) (string, error) { return "wrote " + in, nil },
		"shell.bash": func(context.Context, string) (string, error) { return "", fault.New(fault.ShellSpawnFailed, "boom") },
	}
	b.deps = Deps{
		Models: opener{"fake": b.model}, Tools: b.tools, Prices: flat{}, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Stopping: make(chan struct{}), Limits: DefaultLimits(),
	}
	b.start = Start{
		RunID: "run1", SessionID: "session1", RequestID: "request1", ProjectID: "demo", OperatorID: "operator1",
		Agent: &compile.Agent{
			Key: "primary", Path: "primary", Model: "smart", PromptPath: "prompts/primary.md",
			Tools: []string{"file.read", "file.write", "shell.bash"},
		},
		Prompts: map[string]string{"prompts/primary.md": "You are careful."},
		Routes:  map[string]contract.Route{"smart": routeTo("fake:m1")},
		History: []llm.Message{{Role: llm.RoleUser, Blocks: []llm.Block{{Text: &llm.Text{Text: "Do it."}}}}},
	}
	return b
}

func routeTo(targets ...string) contract.Route {
	r := contract.Route{Alias: "smart"}
	for _, t := range targets {
		provider, model, _ := strings.Cut(t, ":")
		r.Targets = append(r.Targets, contract.Target{Target: llm.Target{Provider: provider, Model: model, Driver: "fake"}})
	}
	return r
}

func (b *bench) run(ctx context.Context) contract.Finished {
	return New(b.deps, b.start, b.sink).Run(ctx)
}

// results returns the tool results in the messages of a request.
func results(req llm.Request) []llm.ToolResult {
	var out []llm.ToolResult
	for _, m := range req.Messages {
		for _, blk := range m.Blocks {
			if blk.Result != nil {
				out = append(out, *blk.Result)
			}
		}
	}
	return out
}

func callIDs(results []llm.ToolResult) []string {
	var ids []string
	for _, r := range results {
		ids = append(ids, r.CallID)
	}
	return slices.Clip(ids)
}
