package loop

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/catalogue"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
)

// Parallel tools of one turn run at once, at most eight. The others run alone and in order. Results are in the order
// of the calls, not of their ends.
func TestParallelToolsRunSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls []llm.ToolCall
		for i := range 12 {
			calls = append(calls, call(fmt.Sprintf("r%d", i), "file.read", fmt.Sprint(12-i)))
		}
		calls = append(calls, call("w1", "file.write", "1"), call("w2", "file.write", "1"), call("r12", "file.read", "1"))
		b := newBench(t, wants(calls...), says("Done."))
		var running, most atomic.Int32
		work := func(_ context.Context, input string) (string, error) {
			n := running.Add(1)
			defer running.Add(-1)
			most.Store(max(most.Load(), n))
			seconds := 0
			fmt.Sscan(input, &seconds)
			time.Sleep(time.Duration(seconds) * time.Second)
			return input, nil
		}
		b.tools.run["file.read"] = work
		b.tools.run["file.write"] = func(ctx context.Context, input string) (string, error) {
			if running.Load() != 0 {
				t.Error("a write ran beside another tool")
			}
			return work(ctx, input)
		}
		began := time.Now()
		if fin := b.run(t.Context()); fin.Outcome != contract.Completed {
			t.Fatalf("%+v", fin)
		}
		if most.Load() != 8 {
			t.Errorf("%d tools ran at once", most.Load())
		}
		// Twelve reads of 12 down to 1 s, eight at once, take 12 s. Two writes and a read take one second each.
		if took := time.Since(began); took != 15*time.Second {
			t.Errorf("took %v", took)
		}
		var ids, want []string
		for _, e := range of[contract.ToolFinished](b.sink) {
			ids = append(ids, e.Result.CallID)
		}
		for _, c := range calls {
			want = append(want, c.ID)
		}
		if d := cmp.Diff(want, ids); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff(want, callIDs(results(b.model.requests[1]))); d != "" {
			t.Error(d)
		}
	})
}

// Read-only calls of a tool that can also write run at once and before their turn is stored. Its other calls wait for
// storage and run alone.
func TestCallsThatOnlyLookRunSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const list, kill = `{"action":"list"}`, `{"action":"kill"}`
		b := newBench(t, wants(call("a", "shell.process", list), call("b", "file.read", "{}"),
			call("c", "shell.process", list),
			call("d", "shell.process", kill)), says("Done."))
		b.start.Agent.Tools = append(b.start.Agent.Tools, "shell.process")
		var running, most atomic.Int32
		work := func(_ context.Context, input string) (string, error) {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			if input == kill && running.Load() != 1 {
				t.Error("a call that changes something ran beside another")
			}
			time.Sleep(time.Second)
			return "{}", nil
		}
		b.tools.run["shell.process"], b.tools.run["file.read"] = work, work
		began := time.Now()
		if fin := b.run(t.Context()); fin.Outcome != contract.Completed {
			t.Fatalf("%+v", fin)
		}
		if most.Load() != 3 {
			t.Errorf("got %d calls at once, want 3", most.Load())
		}
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("took %v, want 2s", took)
		}
		if turns := of[contract.TurnDone](b.sink); !turns[0].Wait {
			t.Error("the turn with a call that changes something was not to be stored first")
		}
	})
}

// A turn of read-only calls does not wait for its storage.
func TestATurnThatOnlyLooksNeedNotBeStored(t *testing.T) {
	b := newBench(t, wants(call("a", "shell.process", `{"action":"list"}`)), says("Done."))
	b.start.Agent.Tools = append(b.start.Agent.Tools, "shell.process")
	b.tools.run["shell.process"] = func(context.Context, string) (string, error) { return "{}", nil }
	if fin := b.run(t.Context()); fin.Outcome != contract.Completed {
		t.Fatalf("%+v", fin)
	}
	if turns := of[contract.TurnDone](b.sink); turns[0].Wait {
		t.Error("the turn waits for storage though its call only looks")
	}
}

// A tool with effects runs only after its turn is stored, and the model is called again only after the results are
// stored.
func TestStorageComesFirst(t *testing.T) {
	b := newBench(t, wants(call("r", "file.read", "{}"), call("w", "file.write", "{}")), says("Done."))
	var wrote, turnStored, resultsStored bool
	b.tools.run["file.write"] = func(context.Context, string) (string, error) {
		wrote = true
		if !turnStored {
			t.Error("the tool ran before its turn was stored")
		}
		return "", nil
	}
	b.sink.store = func(_ context.Context, half Half) (Stored, error) {
		step, part := half.Step, half.Part
		switch {
		case step == 1 && part == TurnPart:
			if wrote {
				t.Error("asked for storage too late")
			}
			turnStored = true
		case step == 1 && part == ResultsPart:
			if b.model.calls() != 1 {
				t.Error("the model was called before the results were stored")
			}
			resultsStored = true
		default:
			t.Errorf("asked for step %d part %d", step, part)
		}
		return Stored{}, nil
	}
	if fin := b.run(t.Context()); fin.Outcome != contract.Completed || !resultsStored {
		t.Errorf("%+v", fin)
	}
	turns := of[contract.TurnDone](b.sink)
	if !turns[0].Wait || turns[1].Wait {
		t.Error("the wrong turns say that the loop waits")
	}

	b = newBench(t, wants(call("w", "file.write", "{}")))
	b.sink.store = func(context.Context, Half) (Stored, error) {
		return Stored{}, fault.New(fault.Cancelled, "No more answers.")
	}
	if fin := b.run(t.Context()); fin.Outcome != contract.Cancelled || len(b.tools.seen) != 0 {
		t.Errorf("%+v after %d tools", fin, len(b.tools.seen))
	}
}

// A call's request to the tool runner has its own id in the session, the name that the model used, and the calling
// agent (T-RES-*).
func TestToolRequest(t *testing.T) {
	b := newBench(t, wants(call("c1", "read_file", `{"path":"a"}`)), says("Done."))
	b.start.Agent.Aliases = map[string]string{"file.read": "read_file"}
	b.start.OperatorTools = []catalogue.Switch{{Pattern: "shell.*", Enabled: false}}
	b.start.ProjectRoot = "/projects/demo"
	b.run(t.Context())
	want := ToolRequest{CallID: "run1.1.c1", Tool: "read_file", Input: `{"path":"a"}`, Context: &contract.Caller{
		SessionID: "session1", RunID: "run1", RequestID: "request1", Agent: "primary", ProjectID: "demo",
		Root: "/projects/demo", OperatorID: "operator1", Tools: []string{"file.read", "file.write"},
	}}
	if d := cmp.Diff(want, b.tools.seen[0]); d != "" {
		t.Error(d)
	}
	var shown []string
	for _, tool := range b.model.requests[0].Tools {
		shown = append(shown, tool.Name+": "+tool.Description)
	}
	if d := cmp.Diff([]string{"read_file: Reads, too.", "file.write: Writes."}, shown); d != "" {
		t.Error(d)
	}
	if out := of[contract.ToolOutput](b.sink); len(out) != 1 ||
		out[0] != (contract.ToolOutput{CallID: "c1", Stream: "stdout", Text: "running read_file"}) {
		t.Errorf("%+v", out)
	}
}

// If the tool runner is lost, breaks off or panics, the model gets a result that says that the effect is unknown. The
// record has an entry with the requested call, secrets masked. The run continues.
func TestToolRunnerFailures(t *testing.T) {
	for name, tt := range map[string]struct {
		run  func(context.Context, string) (string, error)
		code fault.Code
	}{
		"gone": {
			func(context.Context, string) (string, error) { return "", fault.New(fault.Unavailable, "x") }, fault.Unavailable,
		},
		"broken": {
			func(context.Context, string) (string, error) { return "", fault.New(fault.Interrupted, "x") }, fault.Interrupted,
		},
		"panics": {func(context.Context, string) (string, error) { panic("secret") }, fault.Internal},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, wants(call("c1", "file.write", `{"path":"a.txt","token":"hidden"}`)), says("I see."))
			b.tools.run["file.write"] = tt.run
			if fin := b.run(t.Context()); fin.Outcome != contract.Completed {
				t.Fatalf("%+v", fin)
			}
			f := of[contract.ToolFinished](b.sink)[0]
			if f.Err == nil || f.Err.Code != tt.code || !f.Result.IsError ||
				!strings.Contains(f.Result.Content, tt.code.String()) {
				t.Errorf("%+v", f)
			}
			if text := fmt.Sprint(f.Audit) + f.Result.Content; strings.Contains(text, "hidden") ||
				strings.Contains(text, "secret") {
				t.Error(text)
			}
			types := []string{f.Audit[0].Type, f.Audit[1].Type}
			if !slices.Equal(types, []string{"tool.called", "tool.completed"}) {
				t.Error(types)
			}
			if d := cmp.Diff(map[string]any{"path": "a.txt", "token": "[masked]"}, f.Audit[0].Payload["params"]); d != "" {
				t.Error(d)
			}
		})
	}
}

// The tool runner's records of a cancelled call are kept, and the loop adds none. Its result has its output so far.
func TestCancelledCallsKeepTheirRecords(t *testing.T) {
	b := newBench(t, wants(call("c1", "file.write", "{}")), says("I see."))
	b.tools.run["file.write"] = func(context.Context, string) (string, error) {
		return "", fault.New(fault.Cancelled, "x")
	}
	b.run(t.Context())
	f := of[contract.ToolFinished](b.sink)[0]
	if f.Err == nil || f.Err.Code != fault.Cancelled || !strings.Contains(f.Result.Content, "may have had effects") ||
		!strings.Contains(f.Result.Content, `"details":{"output":"running file.write"}`) {
		t.Errorf("%+v", f)
	}
	if len(f.Audit) != 1 || f.Audit[0].Type != "known" {
		t.Errorf("recorded is %+v", f.Audit)
	}
}

// Call ids are unique in a conversation, even if a model repeats or omits them. Calls without a name or with
// malformed input reach the tool runner, which refuses them.
func TestCallIDsAreUnique(t *testing.T) {
	b := newBench(
		t, wants(call("old", "file.read", ""), call("", "file.read", "{"), call("x", "\xffno.such", "{}"),
			call("x", "file.read", "{}")), says("Done."),
	)
	b.start.History = append([]llm.Message{
		{Role: llm.RoleAssistant, Blocks: []llm.Block{{Call: &llm.ToolCall{ID: "old", Name: "file.read", Input: "{}"}}}},
		{Role: llm.RoleTool, Blocks: []llm.Block{{Result: &llm.ToolResult{CallID: "old", Content: "a"}}}},
	}, b.start.History...)
	if fin := b.run(t.Context()); fin.Outcome != contract.Completed {
		t.Fatalf("%+v", fin)
	}
	ids := callIDs(results(b.model.requests[1]))
	slices.Sort(ids)
	if len(slices.Compact(slices.Clone(ids))) != 5 {
		t.Errorf("ids are %v", ids)
	}
	if got := results(b.model.requests[1])[3]; !got.IsError || got.Name != "\uFFFDno.such" {
		t.Errorf("%+v", got)
	}
}

// Every event of a call repeats its name and id. A long name is cut, a long id is replaced, and the run continues.
func TestLongNames(t *testing.T) {
	long := strings.Repeat("ö", 1<<20)
	b := newBench(t, wants(call(long, "x"+long, "{}")), says("Done."))
	if fin := b.run(t.Context()); fin.Outcome != contract.Completed {
		t.Fatalf("%+v", fin)
	}
	got := results(b.model.requests[1])[0]
	if !got.IsError || got.Name != "x"+strings.Repeat("ö", 127) || len(got.CallID) > maxName {
		t.Errorf("the result of a call with %d bytes of name and %d of id says %.300q", len(got.Name), len(got.CallID),
			got.Content)
	}
	for _, f := range of[contract.ToolFinished](b.sink) {
		if n := len(fmt.Sprintf("%+v", f)); n > 16<<10 {
			t.Errorf("what is told of the call takes %d bytes", n)
		}
	}
}
