package loop

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
)

// S5.1: an agent without tools answers a message with text, and the loop ends after one call (T-LOOP-S5.1, T-LOOP-02,
// T-LOOP-03).
func TestS5_1(t *testing.T) {
	b := newBench(t, says("Hello."))
	b.start.Agent.Tools = nil
	fin := b.run(t.Context())
	if fin.Outcome != contract.Completed || fin.Stop != llm.StopEnd || fin.Steps != 1 || b.model.calls() != 1 {
		t.Errorf("%+v after %d calls", fin, b.model.calls())
	}
	if d := cmp.Diff([]string{"start fake:m1", "delta Hello.", "turn"}, b.sink.story()); d != "" {
		t.Error(d)
	}
	if b.tools.asked != 0 {
		t.Error("the catalogue was asked for an agent without tools")
	}
}

// S5.2: a tool is called, the model gets its result, and answers with it (T-LOOP-S5.2, T-LOOP-10).
func TestS5_2(t *testing.T) {
	b := newBench(t, wants(call("c1", "file.read", `{"path":"a"}`)), says("It says a."))
	fin := b.run(t.Context())
	if fin.Outcome != contract.Completed || fin.Steps != 2 {
		t.Fatalf("%+v", fin)
	}
	second := b.model.requests[1]
	want := []llm.Message{
		b.start.History[0],
		{
			Role: llm.RoleAssistant, Blocks: []llm.Block{
				{Call: &llm.ToolCall{ID: "c1", Name: "file.read", Input: `{"path":"a"}`}},
			},
		},
		{
			Role: llm.RoleTool, Blocks: []llm.Block{
				{Result: &llm.ToolResult{CallID: "c1", Name: "file.read", Content: `read {"path":"a"}`, DurationMS: 1}},
			},
		},
	}
	if d := cmp.Diff(want, second.Messages); d != "" {
		t.Error(d)
	}
	story := []string{"turn", "call c1", "result c1", "done", "results stored?", "start"}
	got := b.sink.story()
	if d := cmp.Diff(story[:5], got[1:6]); d != "" {
		t.Error(d)
	}
}

// S5.3: the results of several tools of one turn are collected and sent back in the order of the calls (T-LOOP-S5.3,
// T-LOOP-04, T-LOOP-05).
func TestS5_3(t *testing.T) {
	b := newBench(t, wants(call("c1", "file.read", `{}`), call("c2", "file.write", `{}`), call("c3", "file.read", `{}`)),
		says("Done."))
	if fin := b.run(t.Context()); fin.Outcome != contract.Completed {
		t.Fatalf("%+v", fin)
	}
	if d := cmp.Diff([]string{"c1", "c2", "c3"}, callIDs(results(b.model.requests[1]))); d != "" {
		t.Error(d)
	}
	want := []string{
		"start fake:m1", "turn", "call c1", "result c1", "turn stored?", "call c2", "result c2", "call c3", "result c3",
		"done", "results stored?", "delta Done.", "turn",
	}
	if d := cmp.Diff(want, b.sink.story()); d != "" {
		t.Error(d)
	}
}

// S5.4: the error of a failing tool is a result for the model, which continues (T-LOOP-S5.4, T-LOOP-06, T-LOOP-11).
func TestS5_4(t *testing.T) {
	b := newBench(t, wants(call("c1", "shell.bash", `{}`)), says("It did not work."))
	fin := b.run(t.Context())
	if fin.Outcome != contract.Completed {
		t.Fatalf("%+v", fin)
	}
	got := results(b.model.requests[1])[0]
	if !got.IsError || !strings.Contains(got.Content, `"code":"shell_spawn_failed"`) ||
		!strings.Contains(got.Content, `"message":"boom"`) {
		t.Errorf("%+v", got)
	}
	if e := of[contract.ToolFinished](b.sink)[0]; e.Err == nil || e.Err.Code != fault.ShellSpawnFailed {
		t.Errorf("%+v", e)
	}
}

// hangs writes a text and then waits for the end of its context, like a provider that never finishes.
func hangs(text string) play {
	return func(ctx context.Context, yield func(llm.Event) bool) error {
		if yield(llm.Event{Accepted: &llm.Accepted{}}) && yield(llm.Event{ThinkingDelta: "hm"}) &&
			yield(llm.Event{TextDelta: text}) {
			<-ctx.Done()
		}
		return ctx.Err()
	}
}

// S5.5: a cancel in mid-answer ends the loop at once, and the received part is kept (T-LOOP-S5.5, H-CANCEL-01).
func TestS5_5(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, hangs("Half of an ans"))
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Hour, func() { cancel(fault.New(fault.Cancelled, "Stop.")) })
		fin := b.run(ctx)
		if fin.Outcome != contract.Cancelled || fin.Stop != llm.StopAborted || fin.Err != nil || fin.Steps != 0 {
			t.Errorf("%+v", fin)
		}
		want := []llm.Block{{Thinking: &llm.Thinking{Text: "hm"}}, {Text: &llm.Text{Text: "Half of an ans"}}}
		if d := cmp.Diff(want, fin.Partial); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff([]string{"start fake:m1", "delta hm", "delta Half of an ans"}, b.sink.story()); d != "" {
			t.Error(d)
		}
		if fin.Stats == nil || fin.Stats.Duration != llm.Milliseconds(time.Hour) {
			t.Errorf("stats %+v", fin.Stats)
		}
	})
}

// S5.6: the loop continues until the model answers with text alone (T-LOOP-S5.6).
func TestS5_6(t *testing.T) {
	b := newBench(t, wants(call("c1", "file.read", `{}`)), wants(call("c2", "file.write", `{}`)), says("Done."))
	fin := b.run(t.Context())
	if fin.Outcome != contract.Completed || fin.Steps != 3 || b.model.calls() != 3 {
		t.Errorf("%+v after %d calls", fin, b.model.calls())
	}
	if d := cmp.Diff([]string{"c1", "c2"}, callIDs(results(b.model.requests[2]))); d != "" {
		t.Error(d)
	}
	if starts := of[contract.MessageStart](b.sink); len(starts) != 1 {
		t.Errorf("%d message starts", len(starts)) // H-STREAM-MAP-03
	}
}

// S5.7: at the step limit the loop stops, with a closing text if the model still wanted tools (T-LOOP-S5.7,
// T-LOOP-01, T-LOOP-08, T-LOOP-09). Without max_steps the limit is 20 (H-STREAM-LIM-02, H-TEST-LIM-01).
func TestS5_7(t *testing.T) {
	endless := make([]play, DefaultMaxSteps)
	for i := range endless {
		endless[i] = wants(call("", "file.read", fmt.Sprintf(`{"offset":%d}`, i)))
	}
	b := newBench(t, endless...)
	fin := b.run(t.Context())
	if fin.Outcome != contract.Completed || fin.Stop != llm.StopToolUse ||
		fin.ClosingText != "Stopped: maximum iteration limit reached." {
		t.Errorf("%+v", fin)
	}
	if b.model.calls() != 20 || len(of[contract.ToolFinished](b.sink)) != 20 {
		t.Errorf("%d calls, %d results", b.model.calls(), len(of[contract.ToolFinished](b.sink)))
	}

	b = newBench(t, wants(call("c1", "file.read", `{}`)), says("Just in time."))
	b.start.MaxSteps, b.start.Agent.MaxSteps = 2, 50
	if fin := b.run(t.Context()); fin.ClosingText != "" || fin.Stop != llm.StopEnd || fin.Steps != 2 {
		t.Errorf("%+v", fin)
	}
}

// S5.8: a cancel reaches the model's stream or the running tool, and ends the loop (T-LOOP-S5.8, T-LOOP-07,
// T-LOOP-13, H-CANCEL-02).
func TestS5_8(t *testing.T) {
	b := newBench(t, wants(call("c1", "file.write", `{}`), call("c2", "file.write", `{}`)))
	ctx, cancel := context.WithCancelCause(t.Context())
	toolEnded := false
	b.tools.run["file.write"] = func(ctx context.Context, _ string) (string, error) {
		cancel(fault.New(fault.Cancelled, "Stop."))
		<-ctx.Done()
		toolEnded = true
		return "", ctx.Err()
	}
	fin := b.run(ctx)
	if fin.Outcome != contract.Cancelled || fin.Stop != llm.StopAborted || !toolEnded || len(b.tools.seen) != 1 {
		t.Errorf("%+v, tool ended: %t, calls: %d", fin, toolEnded, len(b.tools.seen))
	}
	finished := of[contract.ToolFinished](b.sink)
	if len(finished) != 2 {
		t.Fatalf("%d results", len(finished))
	}
	for _, f := range finished {
		if !errors.Is(f.Err, fault.Cancelled) || !f.Result.IsError || len(f.Audit) != 2 {
			t.Errorf("%+v", f)
		}
	}
	if finished[0].Result.Content == finished[1].Result.Content {
		t.Error("a call that ran and one that never did read the same")
	}
	want := []string{"start fake:m1", "turn", "turn stored?", "call c1", "result c1", "call c2", "result c2", "done"}
	if d := cmp.Diff(want, b.sink.story()); d != "" {
		t.Error(d)
	}
}

// Loops share only their dependencies: many at once, over the same models and tools, each keep their own conversation
// (T-LOOP-14).
func TestLoopsDoNotMeet(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			own := fmt.Sprintf("%d", i)
			b := newBench(t, wants(call("c1", "file.read", own)), says("Read "+own))
			b.start.SessionID, b.start.History[0].Blocks[0].Text.Text = "session"+own, "Read "+own
			fin := b.run(t.Context())
			if fin.Outcome != contract.Completed || len(b.model.requests) != 2 {
				t.Errorf("%+v", fin)
				return
			}
			for n, req := range b.model.requests {
				if req.Messages[0].Blocks[0].Text.Text != "Read "+own || n == 1 && results(req)[0].Content != "read "+own {
					t.Errorf("loop %s was given %+v", own, req.Messages)
				}
			}
			if got := of[contract.Delta](b.sink); len(got) != 1 || got[0].Text != "Read "+own {
				t.Errorf("loop %s wrote %+v", own, got)
			}
		})
	}
	all.Wait()
}
