package loop

import (
	"context"
	"strings"
	"testing"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/llm"
)

func openTodos(contents ...string) contract.OpenTodos {
	t := contract.OpenTodos{Open: len(contents)}
	for i, c := range contents {
		t.Shown = append(t.Shown, contract.OpenTodo{Content: c, Working: i == 0, Criterion: i == 2})
	}
	return t
}

// An agent with an issue is reminded of its open todos, in their newest state, at each step except after a result
// that shows them. There is no reminder after all todos are done, and none without an issue. T-TODO-STICKY-01, -04,
// -05.
func TestReminded(t *testing.T) {
	b := newBench(t,
		wants(call("c1", "file.read", "{}")), wants(call("c2", "kaged.todo", "{}")), wants(call("c3", "file.read", "{}")),
		wants(call("c4", "kaged.todo.done", "{}"), call("c5", "file.read", "{}")), wants(call("c6", "file.read", "{}")),
		says("Done."))
	b.tools.run["kaged.todo"] = b.tools.run["file.read"]
	b.tools.run["kaged.todo.done"] = b.tools.run["file.read"]
	b.start.Issue, b.start.Todos = 3, openTodos("Write tests", "Check tokens", "Logs are kept")
	after := map[int]contract.OpenTodos{
		1: openTodos("Write tests", "Check tokens"), 2: openTodos("Check tokens"), 3: openTodos("Check tokens"),
		4: openTodos("Check tokens"), 5: {},
	}
	b.sink.store = func(_ context.Context, half Half) (Stored, error) {
		if half.Part == TurnPart {
			return Stored{}, nil
		}
		return Stored{Todos: after[half.Step]}, nil
	}
	if fin := b.run(t.Context()); fin.Outcome != contract.Completed {
		t.Fatalf("%+v", fin)
	}
	want := []string{
		"Open todos of issue #3; kaged.todo changes them:\n- [>] Write tests\n- [ ] Check tokens\n" +
			"- [ ] Logs are kept (criterion)",
		"Open todos of issue #3; kaged.todo changes them:\n- [>] Write tests\n- [ ] Check tokens",
		"",
		"Open todos of issue #3; kaged.todo changes them:\n- [>] Check tokens",
		"", "",
	}
	for i, req := range b.model.requests {
		if req.Note != want[i] {
			t.Errorf("step %d is reminded of %q, want %q", i+1, req.Note, want[i])
		}
	}

	b = newBench(t, says("Done."))
	b.run(t.Context())
	if note := b.model.requests[0].Note; note != "" {
		t.Errorf("without an issue the agent is reminded of %q", note)
	}
}

// A run that outgrows its model's window drops its oldest steps, and every request still has the reminder.
func TestRemindersSurviveCompaction(t *testing.T) {
	b := narrow(t, 40)
	b.start.Issue, b.start.Todos = 3, openTodos("Write tests", "Check tokens", "Logs are kept")
	b.sink.store = func(context.Context, Half) (Stored, error) { return Stored{Todos: b.start.Todos}, nil }
	if fin := b.run(t.Context()); fin.Outcome != contract.Completed || fin.Steps != 41 {
		t.Fatalf("%+v", fin)
	}
	compacted := 0
	for _, c := range b.compactions() {
		if c.Phase == contract.CompactionCompleted {
			compacted++
		}
	}
	if compacted < 2 {
		t.Fatalf("the run was compacted %d times, want several", compacted)
	}
	want := reminderOf(3, b.start.Todos)
	for i, req := range b.model.requests {
		if req.Note != want {
			t.Errorf("request %d is reminded of %q, want %q", i, req.Note, want)
		}
	}
}

// A child knows the issue only from its parent. T-TODO-BUBBLE-05.
func TestChildrenAreNotReminded(t *testing.T) {
	f := newFamily(t, wants(asks("c1", "scout", "Look.")), says("Done."))
	scout := f.child(f.start.Agent, "scout", says("Found it."))
	f.start.Issue, f.start.Todos = 3, openTodos("Write tests")
	f.run(t.Context())
	for _, req := range f.models[scout.Model].requests {
		if req.Note != "" {
			t.Errorf("the child is reminded of %q", req.Note)
		}
	}
}

// A reminder is recorded beside the chain and is no part of it: the chain continues from step to step and from run to
// run, and no reminder is in the conversation. T-TODO-STICKY-04.
func TestRemindersLeaveTheChain(t *testing.T) {
	var a archive
	var head contract.AuditHead
	var history []llm.Message
	for run := range 2 {
		b := newBench(t, wants(call("c1", "file.read", "{}")), says("Done."))
		b.start.Issue, b.start.Todos, b.start.AuditHead = 3, openTodos("Write tests"), head
		history = append(history, b.start.History...)
		b.start.History = history
		b.sink.store = func(context.Context, Half) (Stored, error) { return Stored{Todos: openTodos("Check tokens")}, nil }
		b.run(t.Context())
		steps := 0
		for i, r := range records(b.sink, preGeneration, preGenerationStep) {
			a.add(t, r)
			if (r.Payload["base_hash"] == nil) != (run == 0 && i == 0) {
				t.Errorf("run %d, record %d continues %v", run, i, r.Payload["base_hash"])
			}
			if r.Type == preGenerationStep {
				if want := b.model.requests[steps].Note; r.Payload["note"] != want || want == "" {
					t.Errorf("run %d, step %d: recorded %v, want %q", run, steps+1, r.Payload["note"], want)
				}
				steps++
			}
		}
		last := b.model.requests[1]
		for _, m := range last.Messages {
			if m.Role == llm.RoleSystem {
				t.Errorf("the conversation holds %+v", m)
			}
		}
		heads := of[contract.AuditMoved](b.sink)
		head = heads[len(heads)-1].Head
		history = append(last.Messages, llm.Message{
			Role: llm.RoleAssistant, Blocks: of[contract.TurnDone](b.sink)[1].Blocks,
		})
	}
}

// A reminder has fewer than 300 tokens for todos of any length and script.
func TestRemindersAreShort(t *testing.T) {
	for _, c := range []string{"w", "ü", "言", "\u2028", "\x00", "\xff", `"`} {
		todos := openTodos(strings.Repeat(c, 500), strings.Repeat(c, 500), strings.Repeat(c, 500), strings.Repeat(c, 500),
			strings.Repeat(c, 500))
		todos.Open = 1000
		text := reminderOf(1<<40, todos)
		if n := tokensOf(int64(len(text))); n >= 300 || strings.Count(text, "\n") != 5 ||
			!strings.Contains(text, "(5 of 1000)") {
			t.Errorf("%d tokens of %q: %s", n, c, text)
		}
	}
}
