package runs_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/runs"
)

// While its row is being stored the harness holds the run without beginning it; if the row is not stored, the run
// is withdrawn.
func TestReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness()
		r := ready(t, h, false)
		synctest.Wait()
		select {
		case <-h.gone:
			t.Error("the run went before it was stored")
		default:
		}
		if h.taken == nil || h.taken.Err() != nil {
			t.Error("the harness was not given the run")
		}
		d := &writer{begun: time.Now()}
		r.Begin(d, func(*runs.Run) {})
		<-h.gone
		h.events <- contract.Finished{Outcome: contract.Completed, Stop: llm.StopEnd}
		<-r.Done()

		h = newHarness()
		r = ready(t, h, false)
		r.Drop()
		if h.taken.Err() == nil {
			t.Error("the harness was left with a run that is none")
		}
	})
}

// Records that the harness waits for are committed at once. Results are committed with the audit record of the
// request that follows, for which the harness gets the news at once. Other records are committed with later ones,
// or alone after HoldBack.
func TestHoldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness()
		r, d := begin(t, h, false)
		h.events <- turn(1, true, "a")
		<-h.stored
		h.events <- result(1, "a")
		h.events <- contract.StepDone{Step: 1}
		<-h.stored
		time.Sleep(time.Millisecond)
		h.events <- contract.CallWanted{Call: 2, Audit: []contract.Record{{Type: "agent.request"}}}
		<-h.granted
		h.events <- turn(2, false, "b")
		time.Sleep(9 * time.Millisecond)
		h.events <- result(2, "b")
		h.events <- contract.StepDone{Step: 2}
		if first, second := <-h.stored, <-h.stored; first != (runs.Half{Step: 2, Results: true}) || second != (runs.Half{
			Step: 2,
		}) {
			t.Errorf("answers %v, %v", first, second)
		}
		h.events <- contract.Record{Type: "agent.pre_generation"}
		time.Sleep(time.Second)
		h.events <- turn(3, false)
		h.events <- contract.Finished{Outcome: contract.Completed, Stop: llm.StopEnd}
		<-r.Done()
		want := []string{
			"0s committed turn 1", "0s message.tool_result", "1ms committed results 1, tool.called, agent.request",
			"10ms message.tool_result", "15ms committed turn 2, results 2, tool.called", "65ms committed agent.pre_generation",
			"1.015s committed turn 3, run.ended, completed", "1.015s over",
		}
		if diff := cmp.Diff(want, d.said()); diff != "" {
			t.Error(diff)
		}
	})
}

// A call of an agent that reads a file costs three commits: the caller's turn shares the agent's first request, the
// agent's results its second request, and the agent's end the caller's results and next request.
func TestCommitsOfADelegation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness()
		r, d := begin(t, h, false)
		asks := func(invocation string, call int) {
			h.events <- happening{invocation, contract.Record{Type: "agent.pre_generation"}}
			if invocation == "" {
				h.events <- contract.AuditMoved{}
			}
			h.events <- happening{invocation, contract.CallWanted{Call: call}}
			<-h.granted
		}
		child := func(e contract.Event) { h.events <- happening{"i", e} }
		h.events <- contract.TurnDone{Turn: contract.Turn{Step: 1, Blocks: []llm.Block{
			{Call: &llm.ToolCall{ID: "c", Name: "agent-a", Input: "{}"}},
		}}}
		child(contract.AgentStarted{
			CallID: "c", Name: "a",
			Audit: contract.Record{Type: contract.DelegationStarted, Agent: "primary.subagents.a"},
		})
		asks("i", 1)
		child(contract.TurnDone{Turn: contract.Turn{Step: 1, Blocks: []llm.Block{
			{Call: &llm.ToolCall{ID: "x", Name: "file.read", Input: "{}"}},
		}}})
		child(contract.ToolFinished{Step: 1, Result: llm.ToolResult{CallID: "x", Name: "file.read"}})
		child(contract.StepDone{Step: 1})
		asks("i", 2)
		child(contract.TurnDone{Turn: contract.Turn{Step: 2}})
		child(contract.AgentEnded{Outcome: contract.Completed, Steps: 2})
		h.events <- contract.ToolFinished{Step: 1, Result: llm.ToolResult{CallID: "c", Name: "agent-a"}}
		h.events <- contract.StepDone{Step: 1}
		asks("", 2)
		if n := len(d.changes); n != 3 {
			t.Errorf("%d commits: %q", n, d.said())
		}
		h.events <- contract.Finished{Outcome: contract.Completed, Stop: llm.StopEnd}
		<-r.Done()
	})
}

// Results are stored with the request that follows them. The messages that the run has received are delivered at
// that boundary; a later message waits for the next boundary.
func TestLateSteersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness()
		r, d := begin(t, h, false)
		d.waiting = []record.Steer{{ID: "early"}}
		h.events <- turn(1, true, "a")
		<-h.stored
		h.events <- result(1, "a")
		h.events <- contract.StepDone{Step: 1}
		<-h.stored
		h.events <- contract.CallWanted{Call: 2}
		<-h.granted
		c := d.last()
		now := record.Session{CurrentRun: "r", Steers: []record.Steer{{ID: "early"}, {ID: "late"}}}
		if err := runs.Deliver(renderer{}, &c, now); err != nil {
			t.Fatal(err)
		}
		if left := c.On(now).Steers; !slices.Equal(c.Steered, []string{"early"}) || len(left) != 1 || left[0].ID != "late" {
			t.Errorf("delivered %q, %v wait", c.Steered, left)
		}
		h.events <- contract.Finished{Outcome: contract.Completed, Stop: llm.StopEnd}
		<-r.Done()
	})
}

// A model call is allowed once its audit record is committed. The commit is not delayed, but takes the records
// queued meanwhile along: parallel agents share commits.
func TestRecordsOfRequestsAreAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness()
		r, d := begin(t, h, false)
		d.slow = time.Minute
		wanted := func(call int) contract.CallWanted {
			return contract.CallWanted{Call: call, Audit: []contract.Record{{Type: "agent.request"}}}
		}
		h.events <- wanted(1)
		synctest.Wait()
		h.events <- wanted(2)
		h.events <- wanted(3)
		for call := 1; call <= 3; call++ {
			if g := <-h.granted; g.Call != call || g.Err != nil {
				t.Errorf("granted is %+v, want call %d", g, call)
			}
			d.note("granted %d", call)
		}
		h.events <- contract.Finished{Outcome: contract.Completed}
		<-r.Done()
		want := []string{
			"1m0s committed agent.request", "1m0s granted 1", "2m0s committed agent.request, agent.request",
			"2m0s granted 2", "2m0s granted 3", "3m0s committed run.ended, completed", "3m0s over",
		}
		if diff := cmp.Diff(want, d.said()); diff != "" {
			t.Error(diff)
		}
	})
}

// A slow store delays no frame, and records are stored in order.
func TestSlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness()
		r, d := begin(t, h, false)
		d.slow = time.Minute
		h.events <- turn(1, true, "a")
		for range 3 {
			h.events <- contract.Delta{Text: "x"}
		}
		h.events <- contract.ToolOutput{CallID: "a", Stream: "stdout", Text: "x"}
		<-h.stored
		h.events <- contract.Finished{Outcome: contract.Completed}
		<-r.Done()
		want := []string{
			"0s message.delta", "0s message.delta", "0s message.delta", "0s message.tool_output",
			"1m0s committed turn 1", "2m0s committed run.ended, completed", "2m0s over",
		}
		if diff := cmp.Diff(want, d.said()); diff != "" {
			t.Error(diff)
		}
	})
}

// A cancellation reaches the harness, which reports its results. If the harness does not react, its stream is
// closed after the grace.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness()
		r, d := begin(t, h, false)
		h.events <- turn(1, true, "a")
		<-h.stored
		r.Cancel("enough")
		r.Cancel("again")
		if got := <-h.cancels; got != "enough" {
			t.Errorf("the harness is told %q", got)
		}
		h.events <- contract.Finished{
			Outcome: contract.Cancelled, Stop: llm.StopAborted,
			Partial: []llm.Block{{Text: &llm.Text{Text: "par"}}},
		}
		<-r.Done()
		end := d.last()
		if end.EndRun.State != record.RunCancelled || end.Messages[0].Content != "par" || len(end.Messages[0].Blocks) != 3 {
			t.Errorf("end = %+v", end)
		}

		h = newHarness()
		r, d = begin(t, h, false)
		h.events <- turn(1, true, "a")
		<-h.stored
		r.Cancel("enough")
		<-r.Done()
		if took := time.Since(d.begun); took != 5*time.Second || d.last().EndRun.State != record.RunCancelled || d.resumes() {
			t.Errorf("after %v: %+v", took, d.last().EndRun)
		}
	})
}

// A run to be handed over is released when its harness has reached a safe point, whether or not the project wants
// interrupted runs resumed. Cut ends the run at once, or abandons it to the next holder if the project wants that.
func TestHandOver(t *testing.T) {
	for _, resume := range []bool{false, true} {
		for _, cut := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				h := newHarness()
				r, d := begin(t, h, resume)
				synctest.Wait()
				r.HandOver()
				synctest.Wait()
				h.events <- turn(1, true, "a")
				<-h.stored
				if cut {
					r.Cut()
				} else {
					h.events <- result(1, "a")
					h.events <- contract.StepDone{Step: 1}
					<-h.stored
					h.events <- contract.Finished{Outcome: contract.HandedOver}
				}
				<-r.Done()
				last := d.last()
				switch {
				case !h.halted.Load():
					t.Error("the harness was not told to halt")
				case !cut:
					if last.Released == nil || last.Released.RunID != "r" || last.EndRun != nil || !r.Handed() ||
						len(last.Released.Partial) != 0 || last.Audit[len(last.Audit)-1].EventType != "run.handed_over" ||
						last.Worked == nil {
						t.Errorf("released %+v", last)
					}
				case resume && last.EndRun != nil:
					t.Errorf("the run was ended: %+v", last.EndRun)
				case !resume && (last.EndRun == nil || last.EndRun.Error.Code != fault.Interrupted ||
					last.Session.State != record.Idle || !last.Messages[0].Blocks[1].Result.IsError):
					t.Errorf("end = %+v", last)
				}
				if d.resumes() || cut && r.Handed() {
					t.Errorf("cut %v: resumes %v, handed over %v", cut, d.resumes(), r.Handed())
				}
			})
		}
	}
}

// A cancelled run ends as cancelled, even if its harness reports a handover.
func TestHandOverOfACancelledRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness()
		r, d := begin(t, h, true)
		synctest.Wait()
		r.Cancel("enough")
		h.events <- contract.Finished{Outcome: contract.HandedOver}
		<-r.Done()
		if end := d.last(); end.EndRun == nil || end.EndRun.State != record.RunCancelled || end.Released != nil {
			t.Errorf("%+v", end)
		}
	})
}

// A cancelled run ends as cancelled if kaged stops before the harness has reacted, even if the project wants
// interrupted runs resumed.
func TestCutWhileCancelled(t *testing.T) {
	for _, resume := range []bool{false, true} {
		for name, leave := range map[string]func(*runs.Run){
			"cut": (*runs.Run).Cut, "handed over": func(r *runs.Run) { r.HandOver(); r.Cut() },
		} {
			synctest.Test(t, func(t *testing.T) {
				h := newHarness()
				r, d := begin(t, h, resume)
				h.events <- turn(1, true, "a")
				<-h.stored
				h.events <- contract.ApprovalRequested{ID: "q", CallID: "a"}
				synctest.Wait()
				r.Cancel("enough")
				leave(r)
				<-r.Done()
				if end := d.last().EndRun; end == nil || end.State != record.RunCancelled {
					t.Errorf("%s, resume %v: %+v", name, resume, end)
				}
			})
		}
	}
}

// A run whose session belongs to another process writes no more and ends.
func TestLeaseLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness()
		r, d := begin(t, h, false)
		d.refuse = fault.New(fault.StaleLease, "gone")
		h.events <- turn(1, true, "a")
		<-r.Done()
		if got := d.said(); !cmp.Equal(got, []string{"0s over"}) {
			t.Errorf("said %q", got)
		}

		h = newHarness()
		r, d = begin(t, h, false)
		h.events <- turn(1, true, "a")
		<-h.stored
		d.mu.Lock()
		d.slow = time.Hour // the store is unreachable
		d.mu.Unlock()
		h.events <- contract.StepDone{Step: 1}
		synctest.Wait()
		r.Abandon()
		<-r.Done()
		if took := time.Since(d.begun); took != 0 {
			t.Errorf("it took %v to abandon a run", took)
		}
	})
}

// A broken stream interrupts the run, which may be resumed; a refusal of the harness keeps its code, also
// unavailable.
func TestBrokenStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness()
		r, d := begin(t, h, true)
		h.events <- turn(1, true)
		<-h.stored
		close(h.events)
		<-r.Done()
		if e := d.last().EndRun.Error; e.Code != fault.Interrupted || !d.resumes() {
			t.Errorf("error = %v", e)
		}
		h = newHarness()
		h.deaf = fault.New(fault.Unavailable, "gone")
		r, d = begin(t, h, true)
		<-r.Done()
		if e := d.last().EndRun.Error; e.Code != fault.Interrupted || !d.resumes() {
			t.Errorf("error = %v of a harness that is lost before the run goes", e)
		}
		for code, failure := range map[fault.Code]error{
			fault.Unavailable: fault.New(fault.Unavailable,
				"no harness"), fault.CageUnavailable: fault.New(fault.CageUnavailable, "no"),
			fault.Internal: errors.New("odd"),
		} {
			h = newHarness()
			h.failure = failure
			r, d = begin(t, h, true)
			<-r.Done()
			if e := d.last().EndRun.Error; e.Code != code || d.resumes() {
				t.Errorf("error = %v, want %s", e, code)
			}
		}
	})
}

// Results are stored in the order of their calls, not of their arrival, and audit records carry the run's ids.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness()
		r, d := begin(t, h, false)
		h.events <- turn(1, true, "a", "b", "c")
		<-h.stored
		for _, id := range []string{"c", "a", "b"} {
			h.events <- result(1, id)
		}
		h.events <- contract.StepDone{Step: 1}
		<-h.stored
		h.events <- contract.CallWanted{Call: 2}
		<-h.granted
		c := d.last()
		if got := c.Steps[0].Results; got[0].CallID != "a" || got[1].CallID != "b" || got[2].CallID != "c" {
			t.Errorf("results = %v", got)
		}
		if a := c.Audit[0]; a.UserID != "ada" || a.SessionID != "s" || a.RunID != "r" || a.ProjectID != "p" ||
			a.RequestID != "q" || a.ID == "" {
			t.Errorf("record = %+v", a)
		}
		h.events <- contract.Finished{
			Outcome: contract.Completed, Usage: llm.Usage{Input: 1, CacheRead: 2, Output: 3},
			Stats: &llm.Stats{Cost: &llm.Cost{Total: 4}}, ClosingText: "Stopped.",
		}
		<-r.Done()
		end := d.last()
		if e := end.EndRun; e.Totals.TokensIn != 3 || e.Totals.TokensOut != 3 || *e.Totals.CostUSD != 4 || e.Steps != 1 {
			t.Errorf("end = %+v", e)
		}
		var kinds []string
		for _, f := range end.Outbox {
			kinds = append(kinds, f.ID+" "+f.Type)
		}
		want := []string{"r.message.end message.end", "r.run.ended run.ended", "r.session.state.idle session.state"}
		if diff := cmp.Diff(want, kinds); diff != "" || end.Messages[0].Content != "Stopped." ||
			*end.Session.BlockedReason != "" {
			t.Error(diff, end.Messages[0])
		}
	})
}

// A panic in the relay fails the run and leaves the process running.
func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness()
		r, d := begin(t, h, false)
		h.events <- contract.Delta{Text: "boom"}
		<-r.Done()
		if e := d.last().EndRun.Error; e.Code != fault.Internal {
			t.Errorf("error = %v", e)
		}
	})
}

// A cage's states are shown at once and stored with their audit records; the end of a cage changes no status.
func TestCage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness()
		r, d := begin(t, h, false)
		h.events <- contract.CageChanged{Status: contract.Caged, Audit: contract.Record{Type: "cage.opened"}}
		h.events <- contract.NetworkTried{Audit: contract.Record{Type: "net.denied"}}
		time.Sleep(time.Second)
		if c := d.last(); c.Cage == nil || *c.Cage != (record.RunCage{RunID: "r", Status: contract.Caged}) ||
			len(c.Audit) != 2 || c.Audit[0].RunID != "r" {
			t.Errorf("%+v", c)
		}
		h.events <- contract.CageChanged{
			Status: contract.Caged, Ended: "walltime",
			Audit: contract.Record{Type: "cage.ended"},
		}
		time.Sleep(time.Second)
		if c := d.last(); c.Cage != nil || len(c.Audit) != 1 {
			t.Errorf("%+v", c)
		}
		h.events <- contract.Finished{Outcome: contract.Completed, Stop: llm.StopEnd}
		<-r.Done()
		want := []string{"0s run.cage", "0s net.attempt", "50ms committed cage.opened, net.denied", "1s run.cage"}
		if got := d.said(); !slices.Equal(got[:len(want)], want) {
			t.Errorf("%q", got)
		}
	})
}

// A handover of a run with active agents below the root ends none of them, and keeps the results and questions of
// unfinished steps.
func TestHandOverOfATree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness()
		r, d := begin(t, h, false)
		h.events <- contract.TurnDone{Turn: contract.Turn{Step: 1, Blocks: []llm.Block{{Call: &llm.ToolCall{
			ID:   "c",
			Name: "agent-a", Input: "{}",
		}}}}, Wait: true}
		<-h.stored
		h.events <- happening{"i", contract.AgentStarted{
			CallID: "c", Name: "a",
			Audit: contract.Record{Type: contract.DelegationStarted, Agent: "primary.subagents.a"},
		}}
		h.events <- happening{"i", turn(1, true, "x", "y")}
		if got := <-h.stored; got != (runs.Half{InvocationID: "i", Step: 1}) {
			t.Errorf("stored %v", got)
		}
		r.HandOver()
		synctest.Wait()
		if !h.halted.Load() {
			t.Error("the harness was not told to halt")
		}
		h.events <- happening{"i", contract.ToolFinished{Step: 1, Result: llm.ToolResult{CallID: "x", Name: "t"}}}
		h.events <- happening{"i", contract.ApprovalRequested{ID: "q", CallID: "y", Step: 1}}
		h.events <- contract.Finished{Outcome: contract.HandedOver}
		<-r.Done()
		last := d.last()
		if last.Released == nil || last.EndRun != nil || len(last.Ended) != 0 || len(last.Closed) != 0 ||
			len(last.Outbox) != 0 {
			t.Fatalf("released %+v", last)
		}
		if p := last.Released.Partial; len(p) != 1 || p[0].InvocationID != "i" || len(p[0].Results) != 1 ||
			p[0].Results[0].CallID != "x" {
			t.Errorf("partial results %+v", p)
		}
		if said := strings.Join(d.said(), "\n"); strings.Contains(said, "tool.interrupted") ||
			strings.Contains(said, "approval.closed") {
			t.Errorf("a call counts as cut off:\n%s", said)
		}
	})
}

// Cancelling an agent sends its id to the harness, and the returned channel closes when its end is stored or the
// run ends. An agent that is not active cannot be cancelled.
func TestCancelInvocation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness()
		r, _ := begin(t, h, false)
		start := contract.AgentStarted{Audit: contract.Record{Type: contract.DelegationStarted, Agent: "primary.subagents.a"}}
		h.events <- happening{"i", start}
		h.events <- happening{"j", start}
		synctest.Wait()
		if r.CancelInvocation("k", "Enough.") != nil {
			t.Error("an unknown one is cancelled")
		}
		over := r.CancelInvocation("i", "Enough.")
		if got := <-h.cancels; got != "i" {
			t.Errorf("the harness was told to cancel %q", got)
		}
		select {
		case <-over:
			t.Error("it is over before it has ended")
		default:
		}
		h.events <- happening{"i", contract.AgentEnded{Outcome: contract.Cancelled}}
		<-over
		if r.CancelInvocation("i", "Again.") != nil {
			t.Error("one that has ended is cancelled again")
		}
		over = r.CancelInvocation("j", "Enough.")
		close(h.events)
		<-over
		<-r.Done()
	})
}
