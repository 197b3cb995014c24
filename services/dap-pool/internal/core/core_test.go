package core_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/dap-pool/internal/core"
	"kaged.dev/services/dap-pool/internal/fakedap"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// T-DBG-SESS-01, -02, -03, -05, -06: the handshake has its order, an agent has one session, and after its end
// another.
func TestOneSession(t *testing.T) {
	t.Parallel()
	b := pool(t, fakedap.WrongSeq)
	b.fails(fault.DapSessionEnded, core.Continue)
	b.must()
	want := []string{"initialize", "launch", "setExceptionBreakpoints", "configurationDone"}
	if seen := b.last().Seen(); !slices.Equal(seen[:4], want) {
		t.Errorf("the handshake is %v", seen)
	}
	_, err := b.begin()
	if !errors.Is(err, fault.Conflict) || fault.From(err).Details["reason"] != "debug_session_active" {
		t.Errorf("a second session: %v", err)
	}
	other := *b
	other.owner.RunID = "r2"
	other.must()
	if a := b.ok(core.Disconnect); !a.Terminated || b.running() != 1 {
		t.Errorf("disconnected as %+v, %d adapters run", a, b.running())
	}
	b.fails(fault.DapSessionEnded, core.Threads)
	b.must()
	b.EndRun("s", "")
	if b.running() != 0 || len(b.Sessions("")) != 0 {
		t.Errorf("%d adapters are left, sessions %v", b.running(), b.Sessions(""))
	}
}

// T-DBG-SEC-03, T-AVAIL-08, T-FM-05: a session that cannot begin says why, and leaves no adapter.
func TestNoBeginning(t *testing.T) {
	t.Parallel()
	caged := func(seccomp string) func(*core.Start) {
		return func(s *core.Start) { s.Cage, s.CageID = &dsl.Cage{Seccomp: seccomp}, "cage" }
	}
	for _, c := range []struct {
		name, mode string
		missing    bool
		change     func(*core.Start)
		code       fault.Code
		says       string
	}{
		{name: "seccomp", change: caged("default"), code: fault.DapRequiresRelaxedSeccomp, says: "seccomp: relaxed"},
		{name: "missing", missing: true, code: fault.DapAdapterNotFound, says: "make fakedap"},
		{name: "runtime", change: func(s *core.Start) { s.Runtime = "perl" }, code: fault.InvalidParams, says: "fake"},
		{name: "mode", change: func(s *core.Start) { s.Mode = "test" }, code: fault.InvalidParams, says: "mode"},
		{name: "folder", change: func(s *core.Start) { s.Folder = true }, code: fault.InvalidParams, says: "folder"},
		{name: "refused", mode: fakedap.Refuse, code: fault.DapRequestFailed, says: "does not compile"},
		{name: "killed", mode: fakedap.Killed, code: fault.DapRequestFailed, says: "ended at its start"},
	} {
		b := pool(t, c.mode)
		b.missing = c.missing
		var change []func(*core.Start)
		if c.change != nil {
			change = append(change, c.change)
		}
		if _, err := b.begin(change...); !errors.Is(err, c.code) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
		b.over()
	}
	b := pool(t, "")
	if _, err := b.begin(caged("relaxed")); err != nil {
		t.Errorf("in a relaxed cage: %v", err)
	}
	b.over()
}

// Adapters that say odd things in an odd order are understood.
func TestOddAdapters(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{
		fakedap.Late, fakedap.Twice, fakedap.WrongSeq, fakedap.Asking, fakedap.Lying,
		fakedap.Flood,
	} {
		b := pool(t, mode)
		b.must()
		b.ok(core.SetBreakpoint, line(4))
		if a := b.ok(core.Continue); a.Status != core.Stopped || a.BreakpointID != 1 || a.Location.Line != 4 ||
			len(a.Output.Text) > 9<<10 || !strings.HasSuffix(a.Output.Text, "at 4\n") {
			t.Errorf("%s: %+v", mode, a)
		}
		if mode == fakedap.Flood {
			if a := b.ok(core.StepOver); a.Output.Text != "" || a.Output.From < 2_000_000 {
				t.Errorf("after the flood: %+v", a.Output)
			}
		}
		a := b.ok(core.Continue)
		if a.Status != core.Exited || a.ExitCode == nil || *a.ExitCode != 7 {
			t.Errorf("%s: the end is %+v", mode, a)
		}
		if a := b.ok(core.StepOver); a.Status != core.Exited {
			t.Errorf("%s: after the end: %+v", mode, a)
		}
		b.over()
	}
}

// T-FM-05: an adapter that ends or breaks the framing ends its session, which the next action says; another
// begins then.
func TestBrokenAdapters(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{fakedap.Garbage, fakedap.Half, fakedap.Huge, fakedap.NoJSON} {
		b := pool(t, mode)
		_, err := b.begin()
		if err == nil { // the first answer had no list of threads
			_, err = b.act(core.Threads)
		}
		if !errors.Is(err, fault.DapSessionEnded) {
			t.Errorf("%s: %v", mode, err)
		}
		b.fails(fault.DapSessionEnded, core.Threads)
		b.over()
	}
	for _, mode := range []string{fakedap.Crash, fakedap.Abandons} {
		b := pool(t, mode)
		b.must()
		b.fails(fault.DapSessionEnded, core.Continue)
		if a, err := b.begin(); err != nil || !reasons(a.Records, "crash") {
			t.Errorf("%s: %+v, %v", mode, a, err)
		}
		if records := b.over(); !reasons(records, "run_ended") {
			t.Errorf("%s: records %v", mode, records)
		}
	}
}

// reasons reports whether the ends among records have these reasons.
func reasons(records []contract.Record, want ...string) bool {
	var got []string
	for _, r := range records {
		if r.Type == "debug.session_ended" {
			got = append(got, r.Payload["reason"].(string))
		}
	}
	return slices.Equal(got, want)
}

// An adapter that does not answer fails the action in time, and is ended in time.
func TestSilentAdapters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			mode string
			took time.Duration
		}{{fakedap.Quiet, 10 * time.Second}, {fakedap.Hang, 10 * time.Second}} {
			b := pool(t, c.mode)
			began := time.Now()
			_, err := b.begin()
			if !errors.Is(err, fault.Timeout) || time.Since(began) > c.took+time.Second {
				t.Errorf("%s: %v after %s", c.mode, err, time.Since(began))
			}
			b.over()
		}
	})
}

// T-DBG-SESS-03: an adapter that does not end when it is asked to is ended after the grace.
func TestDeafAdapter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := pool(t, fakedap.Deaf)
		b.must()
		began := time.Now()
		b.ok(core.Disconnect)
		if took := time.Since(began); took != 500*time.Millisecond || b.running() != 0 {
			t.Errorf("after %s %d adapters run", took, b.running())
		}
	})
}

// T-DBG-EXT-06: a program that runs on is answered as running in time; looking at it is a conflict; pause stops it.
func TestRunning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := pool(t, fakedap.Endless)
		b.must()
		began := time.Now()
		within := func(d *core.Do) { d.Timeout = 3 * time.Second }
		if a := b.ok(core.Continue, within); a.Status != core.Running || time.Since(began) != 3*time.Second {
			t.Errorf("%+v after %s", a, time.Since(began))
		}
		for _, action := range []core.Action{core.Variables, core.StackTrace, core.Evaluate, core.StepOver} {
			if f := b.fails(fault.Conflict, action); f.Details["reason"] != "debuggee_running" {
				t.Errorf("action %d: %v", action, f.Details)
			}
		}
		b.ok(core.SetBreakpoint, line(3))
		if a := b.ok(core.Continue, within); a.Status != core.Running {
			t.Errorf("continued once more: %+v", a)
		}
		if a := b.ok(core.Pause); a.Status != core.Stopped || a.Reason != "pause" {
			t.Errorf("paused: %+v", a)
		}
		b.over()
	})
}

// T-DBG-BP-06, -07, T-DBG-EXT-01..05: breakpoints of all kinds are set, listed, replaced, bounded and removed.
func TestBreakpoints(t *testing.T) {
	t.Parallel()
	b := pool(t, "")
	b.must()
	first := b.ok(core.SetBreakpoint, line(4), func(d *core.Do) { d.Condition = "x > 1" }).Breakpoint
	again := b.ok(core.SetBreakpoint, line(4), func(d *core.Do) { d.HitCount = 3; d.LogMessage = "at {x}" }).Breakpoint
	if !first.Verified || first.Actual != 4 || again.ID != first.ID ||
		!strings.Contains(b.last().Asked("setBreakpoints"), `"hitCondition":"3","logMessage":"at {x}"`) {
		t.Errorf("%+v, %+v, sent %s", first, again, b.last().Asked("setBreakpoints"))
	}
	if nowhere := b.ok(core.SetBreakpoint, line(99)).Breakpoint; nowhere.Verified || nowhere.Message != "no such line" {
		t.Errorf("%+v", nowhere)
	}
	b.ok(core.SetBreakpoint, func(d *core.Do) { d.Function = "main" })
	b.ok(core.SetInstructionBreakpoint, func(d *core.Do) { d.Instruction, d.Offset = "0x10", 4 })
	b.ok(core.SetDataBreakpoint, func(d *core.Do) { d.DataID, d.AccessType = "d1", "write" })
	for command, want := range map[string]string{
		"setFunctionBreakpoints": `"name":"main"`, "setInstructionBreakpoints": `"instructionReference":"0x10","offset":4`,
		"setDataBreakpoints": `"dataId":"d1","accessType":"write"`,
	} {
		if sent := b.last().Asked(command); !strings.Contains(sent, want) {
			t.Errorf("%s %s", command, sent)
		}
	}
	if list := b.ok(core.ListBreakpoints).Breakpoints; len(list) != 5 || list[0].Condition != "" || list[0].HitCount != 3 {
		t.Errorf("%+v", list)
	}
	b.fails(fault.RateLimited, core.SetBreakpoint, line(5))
	b.ok(core.RemoveInstructionBreakpoint, func(d *core.Do) { d.Instruction, d.Offset = "0x10", 4 })
	b.ok(core.RemoveDataBreakpoint, func(d *core.Do) { d.DataID = "d1" })
	b.ok(core.RemoveBreakpoint, func(d *core.Do) { d.Function = "main" })
	b.ok(core.RemoveBreakpoint, line(99))
	b.fails(fault.InvalidParams, core.RemoveBreakpoint, line(99))
	b.ok(core.RemoveBreakpoint, line(4))
	if sent := b.last().Asked("setBreakpoints"); !strings.Contains(sent, `"breakpoints":[]`) {
		t.Errorf("after the last removal: %s", sent)
	}
	if sent := b.last().Asked("setInstructionBreakpoints"); !strings.Contains(sent, `"breakpoints":[]`) {
		t.Errorf("after the removal: %s", sent)
	}
	if list := b.ok(core.ListBreakpoints).Breakpoints; len(list) != 0 {
		t.Errorf("%+v", list)
	}
	exceptions := func(names ...string) func(*core.Do) {
		return func(d *core.Do) { d.SetExceptions, d.Exceptions = true, names }
	}
	b.ok(core.SetBreakpoint, exceptions("raised"))
	if sent := b.last().Asked("setExceptionBreakpoints"); sent != `{"filters":["raised"]}` {
		t.Errorf("exceptions %s", sent)
	}
	b.fails(fault.InvalidParams, core.SetBreakpoint, exceptions("strange"))
	b.over()
}

// T-DBG-VARS-01..04, T-DBG-EVAL-01, T-DBG-EXT-03, -07..14: a stopped program is looked at, in bounds, in its
// frame of id 0.
func TestInspection(t *testing.T) {
	t.Parallel()
	b := pool(t, "")
	b.must()
	names := func(a core.Answer) string {
		var list []string
		for _, v := range a.Variables {
			list = append(list, v.Name+"="+v.Value)
		}
		return strings.Join(list, " ")
	}
	for want, change := range map[string]func(*core.Do){
		"token=1 user=person":           func(*core.Do) {},
		"token=1":                       func(d *core.Do) { d.Filter = "tok" },
		"global=9":                      func(d *core.Do) { d.Scope = "global" },
		"user.name=Ann user.home=place": func(d *core.Do) { d.Expand = "user" },
		"user.home.town=Ulm":            func(d *core.Do) { d.Expand = "user.home" },
		"user=person":                   func(d *core.Do) { d.First = 1 },
	} {
		if got := names(b.ok(core.Variables, change)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	b.fails(fault.InvalidParams, core.Variables, func(d *core.Do) { d.Expand = "user.street" })
	expression := func(text string) func(*core.Do) { return func(d *core.Do) { d.Expression = text } }
	if v := b.ok(core.Evaluate, expression("2")).Result; v.Value != "42" || v.Type != "int" {
		t.Errorf("%+v", v)
	}
	if f := b.fails(fault.DapRequestFailed, core.Evaluate, expression("bad")); len(f.Msg) > 5<<10 {
		t.Errorf("a refusal of %d bytes", len(f.Msg))
	}
	if a := b.ok(core.Scopes); len(a.Scopes) != 2 || !a.Scopes[1].Expensive {
		t.Errorf("%+v", a.Scopes)
	}
	if a := b.ok(core.StackTrace); len(a.Frames) != 1 || a.TotalFrames != 1 || a.Frames[0].Path != "/project/a.fake" {
		t.Errorf("%+v", a)
	}
	if a := b.ok(core.DataBreakpointInfo, func(d *core.Do) { d.Name = "x" }); a.Info.DataID != "d1" {
		t.Errorf("%+v", a.Info)
	}
	if a := b.ok(core.Disassemble); len(a.Code) != 1 || a.Code[0].Text != "nop" || a.Code[0].Line != 3 {
		t.Errorf("%+v", a.Code)
	}
	if a := b.ok(core.ReadMemory); a.Memory.Data != "AQID" {
		t.Errorf("%+v", a.Memory)
	}
	if a := b.ok(core.WriteMemory); a.Memory.Wrote != 3 {
		t.Errorf("%+v", a.Memory)
	}
	if a := b.ok(core.Modules); len(a.Modules) != 1 {
		t.Errorf("%+v", a.Modules)
	}
	if a := b.ok(core.LoadedSources); !slices.Equal(a.Sources, []string{"/project/a.fake"}) {
		t.Errorf("%+v", a.Sources)
	}
	custom := func(d *core.Do) { d.Command, d.Arguments = "own/request", `{"a":1}` }
	if a := b.ok(core.CustomRequest, custom); a.JSON != `{"echo":{"a":1}}` {
		t.Errorf("%s", a.JSON)
	}
	b.over()
}

// T-DBG-BP-04, T-DBG-BP-05: where an adapter counts no passes and logs no messages, the pool does both, whether or not
// the adapter says at which breakpoint it stops.
func TestEmulatedBreakpoints(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"simple,laps", "simple,laps,no-ids"} {
		b := pool(t, mode)
		b.must()
		b.ok(core.SetBreakpoint, line(3), func(d *core.Do) { d.LogMessage = "x is {x}, {bad}{" })
		b.ok(core.SetBreakpoint, line(4), func(d *core.Do) { d.HitCount = 2 })
		if sent := b.last().Asked("setBreakpoints"); strings.Contains(sent, "hitCondition") || strings.Contains(sent, "log") {
			t.Errorf("the adapter gets %s", sent)
		}
		a := b.ok(core.Continue)
		if a.Status != core.Stopped || a.Location.Line != 4 || a.BreakpointID != 2 ||
			strings.Count(a.Output.Text, "x is 4x, {") != 2 || strings.Count(a.Output.Text, "at 4") != 2 {
			t.Errorf("%s: in the second lap: %+v", mode, a)
		}
		b.ok(core.RemoveBreakpoint, line(3))
		if a := b.ok(core.Continue); a.Status != core.Stopped || a.Location.Line != 4 {
			t.Errorf("%s: in the third lap: %+v", mode, a)
		}
		if a := b.ok(core.Continue); a.Status != core.Exited {
			t.Errorf("%s: at the end: %+v", mode, a)
		}
		b.over()
	}
}

// If a limit of the cage ends the program and then its adapter, the limit is the answer, although the adapter reported
// an exit code before its own end.
func TestLimitEndsProgramBeforeAdapter(t *testing.T) {
	t.Parallel()
	b := pool(t, "")
	b.killed = contract.ReasonOOM
	b.must()
	for range 2 {
		a, err := b.act(core.Continue)
		if f := fault.From(err); !errors.Is(f, fault.DapSessionEnded) || !strings.Contains(f.Msg, "out of memory") {
			t.Errorf("%+v, %v", a, err)
		}
	}
	b.over()
}

// A program that the adapter starts as a child session is debugged over a connection of its own, with the breakpoints
// that there are; its end is the program's, and ends all of them.
func TestChildSession(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"parent", "parent,late", "parent,twice", "parent,simple,laps"} {
		b := pool(t, mode)
		b.must()
		if b.running() != 2 {
			t.Errorf("%s: there are %d connections", mode, b.running())
		}
		b.ok(core.SetBreakpoint, line(4), func(d *core.Do) { d.HitCount = 1 })
		if a := b.ok(core.Continue); a.Status != core.Stopped || a.Location.Line != 4 || a.BreakpointID != 1 {
			t.Errorf("%s: at the breakpoint: %+v", mode, a)
		}
		if v := b.ok(core.Evaluate, func(d *core.Do) { d.Expression = "2" }).Result; v.Value != "42" {
			t.Errorf("%s: %+v", mode, v)
		}
		b.ok(core.RemoveBreakpoint, line(4))
		if a := b.ok(core.Continue); a.Status != core.Exited || a.ExitCode == nil || *a.ExitCode != 7 {
			t.Errorf("%s: at the end: %+v", mode, a)
		}
		b.over()
	}
	b := pool(t, "parent,endless")
	b.must()
	b.ok(core.Continue, func(d *core.Do) { d.Timeout = time.Millisecond })
	b.ok(core.Disconnect)
	b.over()
}

// A program that the adapter wants in a terminal runs beside the adapter and ends with the session.
func TestTerminal(t *testing.T) {
	t.Parallel()
	b := pool(t, fakedap.Asking)
	b.must()
	if b.running() != 2 || b.first().Asked("runInTerminal") != `{"processId":1}` {
		t.Errorf("%d programs run, told as %s", b.running(), b.first().Asked("runInTerminal"))
	}
	b.ok(core.Disconnect)
	b.over()
}

// Long texts are cut, and bodies of other types than the protocol's fail one action and not the session.
func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	b := pool(t, fakedap.Long)
	b.must()
	if a := b.ok(core.Variables); len(a.Variables) != 100 || len(a.Variables[0].Value) > 1<<10+3 {
		t.Errorf("%d variables, the first of %d bytes", len(a.Variables), len(a.Variables[0].Value))
	}
	b.over()
	b = pool(t, fakedap.Strange)
	b.begin()
	b.fails(fault.DapRequestFailed, core.Variables)
	b.fails(fault.DapRequestFailed, core.Threads)
	b.over()
	b = pool(t, fakedap.Bare)
	if _, err := b.begin(func(s *core.Start) { s.StopOnEntry = false }); err != nil {
		t.Fatal(err)
	}
	b.fails(fault.DapRequestFailed, core.SetBreakpoint, line(3), func(d *core.Do) { d.Condition = "x" })
	b.fails(fault.DapRequestFailed, core.SetInstructionBreakpoint)
	b.fails(fault.DapRequestFailed, core.Modules)
	b.over()
}
