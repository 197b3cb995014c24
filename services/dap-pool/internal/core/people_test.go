package core_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/dap-pool/internal/core"
	"kaged.dev/services/dap-pool/internal/fakedap"
)

// told collects the events that a watcher has received.
type told struct {
	mu     sync.Mutex // guards events
	events []core.Event
}

// watch watches the agent's run until the end of the test.
func (b *bench) watch() *told {
	w, _ := b.watching()
	return w
}

// watching watches the agent's run until leave is called, or until the end of the test.
func (b *bench) watching() (w *told, leave func()) {
	w = &told{}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = b.Watch(ctx, b.owner.SessionID, b.owner.RunID, func(e core.Event) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, e)
			return nil
		})
	}()
	leave = func() { cancel(); <-done }
	b.t.Cleanup(leave)
	return w, leave
}

// The debug sessions of a run end with its last watcher. Their records stay until an answer returns them.
func TestSessionsEndWithTheirLastWatcher(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := pool(t, fakedap.Endless)
		b.must()
		_, first := b.watching()
		_, second := b.watching()
		synctest.Wait() // both watch
		first()
		b.ok(core.Threads)
		second()
		b.fails(fault.DapSessionEnded, core.Threads)
		if records := b.over(); !reasons(records, "run_ended") {
			t.Errorf("the records are %v", records)
		}
	})
}

// take returns the events since the last call, and for each event a word. It waits until all goroutines are idle.
func (w *told) take() (words []string, events []core.Event) {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		switch {
		case e.Running != nil:
			words = append(words, "running")
		case e.Stop != nil:
			words = append(words, "stopped:"+e.Stop.Reason)
		case e.Output != nil:
			words = append(words, "output")
		case e.End != nil:
			words = append(words, "ended:"+e.End.Reason)
		}
	}
	events = w.events
	w.events = nil
	return words, events
}

// want fails the test unless these events were received since the last call, and returns the last of them.
func (w *told) want(t *testing.T, words ...string) core.Event {
	t.Helper()
	got, events := w.take()
	if !slices.Equal(got, words) {
		t.Fatalf("told %v, want %v", got, words)
	}
	return events[len(events)-1]
}

// A watcher receives the position of the program after each step of the agent, the program's output, and its end.
func TestPeopleWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := pool(t, "")
		w := b.watch()
		b.must()
		e := w.want(t, "running", "stopped:entry")
		if e.ID != "dap_a" || e.Agent != "primary" || e.Root != "/project" || len(e.Stop.Frames) != 1 ||
			e.Stop.Frames[0].Path != "a.fake" || len(e.Stop.Locals) != 2 || e.Stop.Locals[0].Name != "token" ||
			e.Stop.Moved != nil {
			t.Errorf("at the entry: %+v, %+v", e, e.Stop)
		}
		b.ok(core.StepOver)
		got, events := w.take()
		if last := events[len(events)-1]; !strings.HasSuffix(strings.Join(got, " "), "stopped:step") ||
			last.Stop.Moved.Action != "step_over" || last.Stop.Moved.Operator != "" || last.Stop.Frames[0].Line != 2 {
			t.Errorf("after the step: %v", got)
		}
		b.ok(core.SetBreakpoint, line(4))
		a := b.ok(core.Continue)
		if a.BreakpointID != 1 || a.Output.Text != "at 4\n" {
			t.Errorf("the agent is told %+v", a)
		}
		got, events = w.take()
		last := events[len(events)-1]
		if last.Stop == nil || last.Stop.BreakpointID != 1 || !slices.Contains(got, "output") {
			t.Errorf("at the breakpoint: %v", got)
		}
		b.ok(core.Continue)
		got, events = w.take()
		if last := events[len(events)-1]; last.End == nil || last.End.Reason != contract.DebugDisconnect ||
			*last.End.ExitCode != 7 || !slices.Contains(got, "output") {
			t.Errorf("at the end: %v %+v", got, last.End)
		}
		// A late watcher receives the present state.
		b.must()
		b.watch().want(t, "running", "stopped:entry")
		b.over()
		w.want(t, "running", "stopped:entry", "ended:run_ended")
	})
}

// An operator pauses a program for which an agent waits, inspects it and continues it. The agent's next answers name
// these moves.
func TestOperatorTakesTheWheel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := pool(t, fakedap.Endless)
		b.must()
		w := b.watch()
		w.want(t, "running", "stopped:entry")
		b.ok(core.SetBreakpoint, line(4))
		waits := make(chan core.Answer)
		go func() { waits <- b.ok(core.Continue) }()
		if e := w.want(t, "running"); e.Running.Moved.Action != "continue" || e.Running.Moved.Operator != "" {
			t.Errorf("the agent moved it: %+v", e.Running.Moved)
		}
		move := func(action core.Action) (core.Answer, error) {
			return b.Control(t.Context(), core.Do{
				Owner: contract.Owner{SessionID: "s"}, Operator: "ada", Action: action, Timeout: 1,
			})
		}
		paused, err := move(core.Pause)
		if err != nil {
			t.Fatal(err)
		}
		a := <-waits
		if a.Status != core.Stopped || a.Reason != "pause" || len(a.Moves) != 1 || a.Moves[0].Action != "pause" ||
			a.Moves[0].Operator != "ada" {
			t.Errorf("the agent is told %+v after %+v", a, paused)
		}
		if e := w.want(t, "stopped:pause"); e.Stop.Moved.Operator != "ada" {
			t.Errorf("moved by %+v", e.Stop.Moved)
		}
		look, err := b.View(t.Context(), core.Look{Session: "s"})
		v := look.View
		if err != nil || len(look.All) != 1 || look.Root != "/project" || v.State.Status != "stopped" ||
			v.Moved.Operator != "ada" ||
			len(v.Frames) != 1 || len(v.Variables) != 2 || len(v.Breakpoints) != 1 || v.Breakpoints[0].Path != "a.fake" ||
			v.State.Location.Path != "a.fake" {
			t.Errorf("the view is %+v, %v", v, err)
		}
		seen, err := b.Control(t.Context(), core.Do{
			Owner: contract.Owner{SessionID: "s"}, Operator: "ada", Action: core.Evaluate, Expression: "2",
		})
		if err != nil || seen.Result.Value != "42" || !strings.Contains(b.last().Asked("evaluate"), `"context":"watch"`) {
			t.Errorf("evaluated as %+v, %v", seen.Result, err)
		}
		if a, err := move(core.Continue); err != nil || a.Status != core.Running {
			t.Errorf("let go: %+v, %v", a, err)
		}
		if f := b.fails(fault.Conflict, core.Variables); f.Details["moved_by"] != "ada" || f.Details["moved"] != "continue" {
			t.Errorf("the agent's next question fails with %v", f.Details)
		}
		if a := b.ok(core.Pause); len(a.Moves) != 1 || a.Moves[0].Action != "continue" {
			t.Errorf("the agent's pause is answered with %+v", a.Moves)
		}
		b.over()
	})
}

// Operators are refused other actions. Without debug sessions they get an empty list.
func TestOperatorIsRefused(t *testing.T) {
	t.Parallel()
	b := pool(t, fakedap.Endless)
	control := func(code fault.Code, change func(*core.Do)) {
		t.Helper()
		d := core.Do{Owner: contract.Owner{SessionID: "s"}, Operator: "ada", Action: core.Continue, Timeout: 1}
		change(&d)
		if _, err := b.Control(t.Context(), d); !errors.Is(err, code) {
			t.Errorf("%v, want %s", err, code)
		}
	}
	control(fault.DapSessionEnded, func(*core.Do) {})
	if look, err := b.View(t.Context(), core.Look{Session: "s"}); err != nil || look.View != nil || len(look.All) != 0 {
		t.Errorf("there is %v, %v", look, err)
	}
	b.must()
	control(fault.NotFound, func(d *core.Do) { d.SessionID = "dap_z" })
	control(fault.DapSessionEnded, func(d *core.Do) { d.Owner.SessionID = "other" })
	for _, action := range []core.Action{core.Disconnect, core.CustomRequest, core.WriteMemory, core.SetBreakpoint} {
		control(fault.InvalidParams, func(d *core.Do) { d.Action = action })
	}
	if _, err := b.View(t.Context(), core.Look{Session: "s", ID: "dap_z"}); !errors.Is(err, fault.NotFound) {
		t.Errorf("another is seen: %v", err)
	}
	if a, err := b.Control(t.Context(), core.Do{
		Owner: contract.Owner{SessionID: "s"}, Operator: "ada", Action: core.Continue, Timeout: 1,
	}); err != nil || a.Status != core.Running {
		t.Errorf("continued: %+v, %v", a, err)
	}
	control(fault.Conflict, func(d *core.Do) { d.Action, d.Expression = core.Evaluate, "1" })
	control(fault.Conflict, func(d *core.Do) { d.Action = core.StepOver })
	b.over()
}

// A program with very much output sends a watcher little of it, and the agent still reads its own part.
func TestFloodIsCutForPeople(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := pool(t, fakedap.Flood)
		b.must()
		w := b.watch()
		w.want(t, "running", "stopped:entry")
		b.ok(core.SetBreakpoint, line(4))
		if a := b.ok(core.Continue); !strings.HasSuffix(a.Output.Text, "at 4\n") {
			t.Errorf("the agent reads %d bytes", len(a.Output.Text))
		}
		_, events := w.take()
		size, next := 0, int64(0)
		for _, e := range events {
			if o := e.Output; o != nil {
				size += len(o.Text)
				if o.From-o.Omitted != next {
					t.Errorf("a piece begins at %d and leaves out %d after %d", o.From, o.Omitted, next)
				}
				next = o.Next
			}
		}
		if last := events[len(events)-1]; last.Stop == nil || size > 64<<10 || next < 2_000_000 {
			t.Errorf("%d bytes up to %d in %d events", size, next, len(events))
		}
		look, err := b.View(t.Context(), core.Look{Session: "s", Output: next - 5})
		if err != nil || look.View.State.Output.Text != "at 4\n" {
			t.Errorf("from the cursor on: %+v, %v", look.View.State.Output, err)
		}
		b.over()
	})
}
