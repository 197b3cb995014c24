package loop

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
)

// goodSummary is the answer of a summarizer that works.
const goodSummary = "In short: words."

// drawCompaction gives the agent a random configuration, a random summarizer and random hooks.
func drawCompaction(rt *rapid.T, b *bench) {
	thinks := func(_ context.Context, yield func(llm.Event) bool) error {
		_ = yield(llm.Event{Accepted: &llm.Accepted{}}) && yield(llm.Event{Done: &llm.Done{
			Blocks: []llm.Block{{Thinking: &llm.Thinking{Text: "hm"}}}, Stop: llm.StopEnd, Usage: used,
		}})
		return nil
	}
	answers := []play{
		says(goodSummary), says(""), says(strings.Repeat("word ", 9000)), wants(call("x", "file.read", "{}")),
		fails(fault.New(fault.ProviderRejected, "The model refused.")), thinks,
	}
	var plays []play
	for range 200 {
		plays = append(plays, rapid.SampledFrom(answers).Draw(rt, "summary"))
	}
	b.deps.Models = opener{"fake": b.model, "cheap": &model{t: b.t, answers: plays}}
	window := rapid.SampledFrom([]string{"wide", "small", "narrow"}).Draw(rt, "window")
	b.start.Routes["sum"] = routeTo("cheap:" + window)
	protect := int64(rapid.IntRange(0, 2000).Draw(rt, "protect"))
	minimum := int64(rapid.IntRange(0, 1000).Draw(rt, "minimum"))
	c := &dsl.Compaction{
		Strategy: rapid.SampledFrom([]string{
			contract.StrategyDrop, contract.StrategySummarize, contract.StrategyDelegate, contract.StrategyCheckpoint,
		}).Draw(rt, "strategy"),
		UpperThreshold: 0.85, LowerThreshold: rapid.SampledFrom([]float64{0.2, 0.6, 0.84}).Draw(rt, "lower"),
		AlwaysKeep: rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"tool:shell.*", "text:KEEP"}), 0, 2,
			rapid.ID[string]).Draw(rt, "always"),
		Prune: &dsl.Prune{
			Disabled: rapid.Bool().Draw(rt, "unpruned"), ProtectTokens: &protect, MinimumSavings: &minimum,
			ProtectedTools: []string{"file.list"},
		},
	}
	if rapid.Bool().Draw(rt, "summarizer") {
		c.SummarizeModel, c.DelegatePlugin = "sum", dsl.Summarizer
	}
	b.start.Agent.Compaction = c
	if rapid.Bool().Draw(rt, "observer") {
		retain := rapid.SliceOfN(rapid.IntRange(-1, 20), 0, 3).Draw(rt, "retain")
		b.deps.Hooks = []Hook{&plugin{name: "o", answer: func(HookCall) (*HookAnswer, error) {
			return &HookAnswer{Retain: retain, Inject: "Remember the milk."}, nil
		}}}
	}
}

// drawTurn returns a turn with thinking and calls, and its results. The ids of the calls begin with name.
func drawTurn(rt *rapid.T, name string) []llm.Message {
	thinking := llm.Block{Thinking: &llm.Thinking{Text: "thought of " + name}}
	turn := llm.Message{Role: llm.RoleAssistant, Blocks: []llm.Block{thinking}}
	results := llm.Message{Role: llm.RoleTool}
	for i := range rapid.IntRange(1, 3).Draw(rt, "calls") {
		id := fmt.Sprint(name, "-", i)
		tool := rapid.SampledFrom([]string{"file.read", "file.read", "shell.bash"}).Draw(rt, "tool")
		turn.Blocks = append(turn.Blocks, llm.Block{Call: &llm.ToolCall{ID: id, Name: tool, Input: "{}"}})
		results.Blocks = append(results.Blocks, llm.Block{Result: &llm.ToolResult{
			CallID: id, Name: tool, Content: strings.Repeat("word ", rapid.IntRange(1, 300).Draw(rt, "size")),
		}})
	}
	return []llm.Message{turn, results}
}

// drawSession gives the bench a random stored conversation that ends with the operator's message, and returns the ids
// of the messages that no compaction may touch.
func drawSession(rt *rapid.T, b *bench) (kept []string) {
	var history []llm.Message
	var sources []contract.Source
	add := func(of contract.Source, messages ...llm.Message) {
		for _, m := range messages {
			history, sources = append(history, m), append(sources, of)
		}
	}
	b.start.Kept = map[string]bool{}
	always := b.start.Agent.Compaction.AlwaysKeep
	marked := func(id string) {
		if rapid.IntRange(0, 5).Draw(rt, "mark") == 0 {
			b.start.Kept[id], kept = true, append(kept, id)
		}
	}
	runs := rapid.IntRange(1, 7).Draw(rt, "runs")
	for r := range runs {
		user, run := fmt.Sprint("u", r), fmt.Sprint("r", r)
		text := fmt.Sprint("wish ", r, " ", strings.Repeat("please ", rapid.IntRange(0, 100).Draw(rt, "words")))
		if rapid.IntRange(0, 4).Draw(rt, "keep") == 0 {
			text += "KEEP"
			if slices.Contains(always, "text:KEEP") {
				kept = append(kept, user)
			}
		}
		add(contract.Source{MessageID: user}, textMessage(llm.RoleUser, text))
		marked(user)
		if r == runs-1 {
			break
		}
		steps := rapid.IntRange(0, 4).Draw(rt, "steps")
		for s := range steps {
			add(contract.Source{MessageID: run, Step: s + 1}, drawTurn(rt, fmt.Sprint(run, "s", s))...)
		}
		add(contract.Source{MessageID: run, Step: steps + 1}, textMessage(llm.RoleAssistant, "answer "+run))
		marked(run)
	}
	b.start.History, b.start.Sources = history, sources
	b.start.Ledger = contract.Ledger{Seq: 1, Entries: []contract.LedgerEntry{
		{Seq: 1, Kind: contract.LedgerDecision, Text: "keep the parser", Agent: "primary"},
	}}
	return append(kept, "u0", fmt.Sprint("u", runs-1))
}

// A dry run and the compaction after it supersede the same parts, for any conversation, configuration, hooks and
// strategy, unless the summarizer fails, which a dry run cannot know. Kept messages are never superseded, the request
// becomes shorter, and the ledger follows the note (H-COMPACT-DRY-01..04, H-COMPACT-KEEP-01..03).
func TestDryRunsEqualCompactions(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) { dryRunEquals(t, rt) })
}

func dryRunEquals(t *testing.T, rt *rapid.T) {
	b := newBench(t)
	drawCompaction(rt, b)
	kept := drawSession(rt, b)
	b.start.Routes["smart"] = routeTo("fake:" + rapid.SampledFrom([]string{"narrow", "wide"}).Draw(rt, "model"))
	order := contract.CompactOrder{ID: "cmp_x", Dry: true}
	dry, err := Compact(t.Context(), b.deps, b.start, order, granted)
	if err != nil {
		rt.Fatal(err)
	}
	summarizer := b.deps.Models.(opener)["cheap"]
	if n := summarizer.calls(); n != 0 || len(dry.Calls) > 0 && slices.ContainsFunc(dry.Calls, isSettled) {
		rt.Fatalf("the dry run made %d requests", n)
	}
	order.Dry = false
	made, err := Compact(t.Context(), b.deps, b.start, order, granted)
	if err != nil {
		rt.Fatal(err)
	}
	proposed, done := dry.Stages[len(dry.Stages)-1], made.Stages[len(made.Stages)-1]
	failed := summarizer.calls() > 0 && !strings.Contains(done.Summary, goodSummary)
	if !failed {
		if d := cmp.Diff(proposed.Spans, done.Spans); d != "" || proposed.Phase != done.Phase {
			rt.Fatalf("%s and %s, spans -dry +real:\n%s", proposed.Phase, done.Phase, d)
		}
	}
	for _, c := range []contract.Compaction{proposed, done} {
		if c.Phase == contract.CompactionNoop {
			continue
		}
		if c.Phase != contract.CompactionCompleted || c.After >= c.Before || len(c.Spans) == 0 {
			rt.Fatalf("%s from %d to %d, spans %v", c.Phase, c.Before, c.After, c.Spans)
		}
		if !strings.Contains(c.Summary, "keep the parser") {
			rt.Fatalf("the note has no ledger: %s", c.Summary)
		}
		for i, s := range b.start.Sources {
			covered := slices.ContainsFunc(c.Spans, func(p contract.Span) bool {
				return p.MessageID == s.MessageID && p.Covers(s.Step)
			})
			shell := slices.Contains(b.start.Agent.Compaction.AlwaysKeep, "tool:shell.*") && callsTool(b.start.History, i)
			if covered && (slices.Contains(kept, s.MessageID) || shell) {
				rt.Fatalf("%s was superseded, step %d", s.MessageID, s.Step)
			}
		}
	}
	if n := strings.Count(fmt.Sprint(phasesOf(made.Stages)), "triggered"); n != 1 {
		rt.Fatalf("stages %v", phasesOf(made.Stages))
	}
}

func isSettled(e contract.Event) bool {
	_, ok := e.(contract.CallSettled)
	return ok
}

func phasesOf(stages []contract.Compaction) (phases []contract.CompactionPhase) {
	for _, s := range stages {
		phases = append(phases, s.Phase)
	}
	return phases
}

// callsTool reports whether the unit of a message has a call of the shell.
func callsTool(history []llm.Message, i int) bool {
	if history[i].Role == llm.RoleTool {
		i--
	}
	return slices.ContainsFunc(callsOf(history[i].Blocks), func(c llm.ToolCall) bool { return c.Name == "shell.bash" })
}

// In a run with any conversation, results, configuration and summarizer, each request is whole: every call has its
// result, every turn has its thinking, and only superseded parts are missing. Kept parts are never superseded, and no
// part is superseded twice (H-COMPACT-PAIR-01..03, H-COMPACT-KEEP-01..03).
func TestRequestsStayWhole(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) { requestsStayWhole(t, rt) })
}

func requestsStayWhole(t *testing.T, rt *rapid.T) {
	b := newBench(t)
	drawCompaction(rt, b)
	kept := drawSession(rt, b)
	steps := rapid.IntRange(1, 25).Draw(rt, "rounds")
	var own []string // the calls of the run
	for s := range steps {
		name := fmt.Sprint("now", s)
		var calls []llm.Block
		for _, block := range drawTurn(rt, name)[0].Blocks {
			if block.Call != nil {
				block.Call.Input = fmt.Sprintf(`{"step":%d}`, s) // the same call again and again would end the run
				own = append(own, block.Call.ID)
			}
			calls = append(calls, block)
		}
		b.model.answers = append(b.model.answers, turnOf(calls))
	}
	b.model.answers = append(b.model.answers, says("done"))
	sizes := rapid.SliceOfN(rapid.IntRange(1, 300), 10, 10).Draw(rt, "sizes")
	n := 0
	read := func(context.Context, string) (string, error) {
		b.tools.mu.Lock()
		defer b.tools.mu.Unlock()
		n++
		return strings.Repeat("word ", sizes[n%len(sizes)]), nil
	}
	b.tools.run["file.read"], b.tools.run["shell.bash"] = read, read
	b.start.Routes["smart"] = routeTo("fake:narrow")
	b.start.MaxSteps, b.start.MaxOutputTokens, b.start.MessageID = 100, 400, "run"
	if fin := b.run(t.Context()); fin.Outcome != contract.Completed {
		rt.Fatalf("%+v", fin)
	}
	seen := map[contract.Source]string{}
	for _, c := range b.compactions() {
		if c.Phase != contract.CompactionCompleted {
			continue
		}
		if c.After >= c.Before {
			rt.Fatalf("%s made %d tokens of %d", c.ID, c.After, c.Before)
		}
		for _, s := range everySource(b.start.Sources, steps) {
			for _, p := range c.Spans {
				if p.MessageID != s.MessageID || !p.Covers(s.Step) {
					continue
				}
				if other, twice := seen[s]; twice && other != c.ID {
					rt.Fatalf("%+v is superseded by %s and %s", s, other, c.ID)
				}
				seen[s] = c.ID
				if slices.Contains(kept, s.MessageID) {
					rt.Fatalf("%s is kept and was superseded", s.MessageID)
				}
			}
		}
	}
	for i, req := range b.model.requests {
		whole(rt, i, req)
	}
	// What the last request lacks is what the compactions superseded.
	last := b.model.requests[len(b.model.requests)-1]
	have := map[string]bool{}
	for _, r := range results(last) {
		have[r.CallID] = true
	}
	for i, m := range b.start.History {
		for _, block := range m.Blocks {
			if block.Result != nil && have[block.Result.CallID] == (seen[b.start.Sources[i]] != "") {
				rt.Fatalf("%s stands in the last request: %v", block.Result.CallID, have[block.Result.CallID])
			}
		}
	}
	for _, id := range own {
		var step int
		if _, err := fmt.Sscanf(id, "now%d-", &step); err != nil {
			rt.Fatal(err)
		}
		if have[id] == (seen[contract.Source{MessageID: "run", Step: step + 1}] != "") {
			rt.Fatalf("%s stands in the last request: %v", id, have[id])
		}
	}
}

// everySource returns the stored positions of a session, and of a run's steps.
func everySource(stored []contract.Source, steps int) []contract.Source {
	all := slices.Compact(slices.Clone(stored))
	for s := range steps {
		all = append(all, contract.Source{MessageID: "run", Step: s + 1})
	}
	return all
}

// turnOf answers with the given blocks.
func turnOf(blocks []llm.Block) play {
	return func(_ context.Context, yield func(llm.Event) bool) error {
		_ = yield(llm.Event{Accepted: &llm.Accepted{}}) &&
			yield(llm.Event{Done: &llm.Done{Blocks: blocks, Stop: llm.StopToolUse, Usage: used}})
		return nil
	}
}

// whole checks that a request has the first message, no half of a pair, no turn without its thinking, and the form that
// providers take.
func whole(rt *rapid.T, i int, req llm.Request) {
	if text := req.Messages[0].Blocks[0].Text; text == nil || !strings.HasPrefix(text.Text, "wish 0") {
		rt.Fatalf("request %d does not begin with the task", i)
	}
	if d := cmp.Diff(llm.Normalize(req.Messages), req.Messages); d != "" {
		rt.Fatalf("request %d is not normalized:\n%s", i, d)
	}
	open := map[string]bool{}
	for _, m := range req.Messages {
		calls := callsOf(m.Blocks)
		for _, c := range calls {
			open[c.ID] = true
			name, _, _ := strings.Cut(c.ID, "-")
			if !slices.ContainsFunc(m.Blocks, func(block llm.Block) bool {
				return block.Thinking != nil && block.Thinking.Text == "thought of "+name
			}) {
				rt.Fatalf("request %d has the turn %s without its thinking", i, name)
			}
		}
		for _, block := range m.Blocks {
			if block.Result == nil {
				continue
			}
			if !open[block.Result.CallID] {
				rt.Fatalf("request %d has a result of %s without its call", i, block.Result.CallID)
			}
			delete(open, block.Result.CallID)
		}
	}
	if len(open) > 0 {
		rt.Fatalf("request %d has calls without results: %v", i, open)
	}
}
