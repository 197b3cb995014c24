package loop

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/catalogue"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
)

// timed is a delta with its time.
type timed struct {
	At       time.Duration
	Thinking bool
	Text     string
}

func timeDeltas(b *bench) *[]timed {
	began := time.Now()
	var out []timed
	b.sink.onEmit = func(e contract.Event) error {
		if d, ok := e.(contract.Delta); ok {
			out = append(out, timed{time.Since(began), d.Thinking, d.Text})
		}
		return nil
	}
	return &out
}

// The first piece is sent at once. Pieces within the next five milliseconds are sent together at their end. A change
// of kind and the end of the turn send the waiting text at once (T-LOOP-12).
func TestDeltasAreGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(_ context.Context, yield func(llm.Event) bool) error {
			say := func(text string, pause time.Duration) {
				yield(llm.Event{TextDelta: text})
				time.Sleep(pause)
			}
			say("a", time.Millisecond)
			say("b", time.Millisecond)
			say("c", 10*time.Millisecond)
			say("d", time.Millisecond)
			say("e", 0)
			yield(llm.Event{ThinkingDelta: "hm"})
			say("f", 0)
			yield(llm.Event{Done: &llm.Done{Blocks: []llm.Block{{Text: &llm.Text{Text: "abcdef"}}}}})
			return nil
		})
		deltas := timeDeltas(b)
		b.run(t.Context())
		ms := time.Millisecond
		want := []timed{
			{0, false, "a"},
			{5 * ms, false, "bc"},
			{12 * ms, false, "d"},
			{13 * ms, false, "e"},
			{13 * ms, true, "hm"},
			{13 * ms, false, "f"},
		}
		if d := cmp.Diff(want, *deltas); d != "" {
			t.Error(d)
		}
	})
}

// Twenty thousand pieces in a burst become few events without loss. A piece of megabytes is sent in parts that end at
// character boundaries.
func TestBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all strings.Builder
		b := newBench(t, func(_ context.Context, yield func(llm.Event) bool) error {
			for range 20_000 {
				yield(llm.Event{TextDelta: "wörd "})
			}
			yield(llm.Event{TextDelta: strings.Repeat("ö", 1<<20)})
			yield(llm.Event{Done: &llm.Done{}})
			return nil
		})
		deltas := timeDeltas(b)
		b.run(t.Context())
		for _, d := range *deltas {
			all.WriteString(d.Text)
			if len(d.Text) > 2*largestDelta || d.Text != strings.ToValidUTF8(d.Text, "") {
				t.Fatalf("a delta of %d bytes", len(d.Text))
			}
		}
		if want := strings.Repeat("wörd ", 20_000) + strings.Repeat("ö", 1<<20); all.String() != want {
			t.Error("text was lost or changed")
		}
		if len(*deltas) > 100 {
			t.Errorf("%d events", len(*deltas))
		}
	})
}

// A sink that blocks stops the reading of the provider.
func TestBackpressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read := 0
		b := newBench(t, func(_ context.Context, yield func(llm.Event) bool) error {
			for range 100 {
				if !yield(llm.Event{TextDelta: strings.Repeat("x", largestDelta)}) {
					return nil
				}
				read++
			}
			yield(llm.Event{Done: &llm.Done{}})
			return nil
		})
		open := make(chan struct{})
		blocked := 0
		b.sink.onEmit = func(e contract.Event) error {
			if _, ok := e.(contract.Delta); ok {
				if blocked++; blocked == 3 {
					<-open
				}
			}
			return nil
		}
		done := make(chan contract.Finished)
		go func() { done <- b.run(context.WithoutCancel(t.Context())) }()
		synctest.Wait()
		if read != 2 {
			t.Errorf("%d pieces were read of a provider whose reader is blocked", read)
		}
		close(open)
		if fin := <-done; fin.Outcome != contract.Completed || read != 100 {
			t.Errorf("%+v after %d", fin, read)
		}
	})
}

// Usage is summed. The time to the first token is the first step's, and the duration is the time of model calls only.
// The cost is known only if every call's cost is known (decision 23, H-STREAM-EV-05, H-STREAM-EV-06, H-STREAM-EV-07,
// H-STREAM-EV-08).
func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(text string, first, total time.Duration, calls ...llm.Block) play {
			return func(_ context.Context, yield func(llm.Event) bool) error {
				time.Sleep(first)
				yield(llm.Event{TextDelta: text})
				time.Sleep(total - first)
				yield(llm.Event{Done: &llm.Done{Blocks: append([]llm.Block{{Text: &llm.Text{Text: text}}}, calls...), Usage: used}})
				return nil
			}
		}
		read := llm.Block{Call: &llm.ToolCall{ID: "c1", Name: "file.read", Input: "{}"}}
		b := newBench(t, slow("a", 200*time.Millisecond, time.Second, read), slow("b", 100*time.Millisecond, time.Second))
		b.tools.run["file.read"] = func(context.Context, string) (string, error) {
			time.Sleep(time.Hour)
			return "", nil
		}
		fin := b.run(t.Context())
		ttft := 200.0
		want := &llm.Stats{TTFT: &ttft, Duration: 2000, TPS: 5, Cost: &llm.Cost{Input: 20, Output: 10, Total: 30}}
		if d := cmp.Diff(want, fin.Stats); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff(llm.Usage{Input: 20, Output: 10, CacheRead: 4}, fin.Usage); d != "" {
			t.Error(d)
		}
		second := 100.0
		if d := cmp.Diff(&llm.Stats{
			TTFT: &second, Duration: 1000, TPS: 5, Cost: &llm.Cost{Input: 10, Output: 5, Total: 15},
		}, of[contract.TurnDone](b.sink)[1].Stats); d != "" {
			t.Error(d)
		}

		b = newBench(t, slow("a", 0, time.Second, read), says("b"))
		b.sink.store = func(context.Context, Half) (Stored, error) {
			return Stored{Routes: map[string]contract.Route{"smart": routeTo("fake:unpriced")}}, nil
		}
		if fin := b.run(t.Context()); fin.Stats.Cost != nil {
			t.Errorf("%+v", fin.Stats)
		}
	})
}

// Every model call writes one log line with exactly the documented fields (H-OBS-LOG-01).
func TestGenerationLog(t *testing.T) {
	b := newBench(t, wants(call("c1", "read_file", "{}"), call("c2", "shell.bash", "{}")), says("Done."))
	b.start.Agent.Aliases = map[string]string{"file.read": "read_file"}
	var out bytes.Buffer
	b.deps.Log = slog.New(slog.NewJSONHandler(&out, nil))
	b.run(t.Context())
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines: %s", len(lines), out.String())
	}
	var line map[string]any
	if err := json.Unmarshal([]byte(lines[0]), &line); err != nil {
		t.Fatal(err)
	}
	if at, err := time.Parse("2006-01-02T15:04:05.000Z", line["timestamp"].(string)); err != nil ||
		time.Since(at) > time.Hour {
		t.Error(line["timestamp"], err)
	}
	for _, varies := range []string{"time", "timestamp", "duration_ms"} {
		if _, ok := line[varies]; !ok {
			t.Error("no", varies)
		}
		delete(line, varies)
	}
	want := map[string]any{
		"level": "INFO", "msg": "agent.generation", "event": "agent.generation", "session_id": "session1", "run_id": "run1",
		"agent": "primary", "model": "fake:m1", "tokens_in": 12.0, "tokens_out": 5.0,
		"tool_calls": []any{"file.read", "shell.bash"},
	}
	if d := cmp.Diff(want, line); d != "" {
		t.Error(d)
	}
}

// A run that cannot start fails with one sentence and a code, and calls no model.
func TestRefusals(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*bench)
		code   fault.Code
		msg    string
	}{
		"no prompt": {
			func(b *bench) { b.start.Prompts = nil }, fault.PromptNotFound, "Prompt file not found: ./prompts/primary.md",
		},
		"no message": {func(b *bench) { b.start.History = nil }, fault.BadRequest, ""},
		"nothing to answer": {func(b *bench) {
			b.start.History = append(b.start.History, llm.Message{
				Role: llm.RoleAssistant, Blocks: []llm.Block{{Text: &llm.Text{Text: "Done."}}},
			})
		}, fault.BadRequest, ""},
		"a cage": {func(b *bench) { b.start.Agent.Cage = &dsl.Cage{} }, fault.CageUnavailable, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			tt.change(b)
			fin := b.run(t.Context())
			if fin.Outcome != contract.Failed || fin.Err.Code != tt.code || tt.msg != "" && fin.Err.Msg != tt.msg ||
				len(b.sink.events) != 0 || fin.Stats != nil {
				t.Errorf("%+v", fin)
			}
		})
	}
}

// The session's limits override the agent's, and the provider gets the output limit (H-STREAM-LIM-01). No ids, paths
// or rules of kaged reach a model (H-DSL-EXCL-01, H-STORE-04). Without a limit the provider gets none
// (H-STREAM-LIM-02, H-TEST-LIM-01).
func TestRequest(t *testing.T) {
	b := newBench(t, says("Hi."))
	b.start.Agent.MaxOutputTokens, b.start.MaxOutputTokens, b.start.ProjectRoot = 5, 7, "/projects/demo"
	b.start.Agent.Tools, b.start.OperatorTools = []string{"shell.bash"},
		[]catalogue.Switch{{Pattern: "other", Enabled: false}}
	b.run(t.Context())
	req := b.model.requests[0]
	if req.MaxOutputTokens != 7 || req.Model != "m1" || len(req.System) != 1 || req.System[0] != "You are careful." ||
		len(req.Tools) != 1 {
		t.Errorf("%+v", req)
	}
	text, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"run1", "session1", "operator1", "request1", "/projects"} {
		if strings.Contains(string(text), secret) {
			t.Errorf("the model is told %s", secret)
		}
	}
	b = newBench(t, says("Hi."))
	b.run(t.Context())
	if got := b.model.requests[0].MaxOutputTokens; got != 0 {
		t.Errorf("a request without a limit is bound to %d tokens", got)
	}
}

// Impossible counts of a provider are bounded before they are summed or stored.
func TestReportedUsageIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(_ context.Context, yield func(llm.Event) bool) error {
			usage := llm.Usage{
				Input: math.MaxInt64, Output: math.MaxInt64, Reasoning: -1, CacheRead: math.MinInt64, CacheWrite: 1_000_000_001,
			}
			yield(llm.Event{Done: &llm.Done{Blocks: []llm.Block{{Text: &llm.Text{Text: "a"}}}, Usage: usage}})
			return nil
		})
		want := llm.Usage{Input: llm.MaxReported, Output: llm.MaxReported, CacheWrite: llm.MaxReported}
		if fin := b.run(t.Context()); fin.Usage != want {
			t.Errorf("got %+v, want %+v", fin.Usage, want)
		}
	})
}
