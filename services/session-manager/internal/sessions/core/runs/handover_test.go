package runs_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/runs"
	"kaged.dev/services/session-manager/internal/sessions/core/transcript"
)

// handed returns a run that was handed over in its second step, which has one result and a question about its other
// call.
func handed(state record.ApprovalState) *runs.Continued {
	first := transcript.Step{Turn: transcript.Turn{Turn: turn(1, true, "a").Turn}, Done: true}
	first.Results = []llm.ToolResult{{CallID: "a", Content: "of a"}}
	second := transcript.Step{Turn: transcript.Turn{Turn: turn(2, true, "b", "c").Turn}}
	second.Results = []llm.ToolResult{{CallID: "b", Content: "of b"}}
	asked := question("q")
	at := time.Now().UnixMilli()
	return &runs.Continued{
		Steps: []transcript.Step{first, second}, Until: time.Now().Add(time.Minute),
		Prepare: func(context.Context) (projects.Inputs, error) { return projects.Inputs{}, nil },
		Handed: record.Handed{Calls: map[string]int{"": 2}, Approvals: []record.Approval{{
			ID: "q", SessionID: "s", RunID: "r", CallID: "c", State: state, Subject: asked.Subject, RequestedAt: at,
			ExpiresAt: at + time.Hour.Milliseconds(), Comment: "so be it",
		}}},
	}
}

// A run that was handed over continues with its steps once a harness is available. The adoption is stored before
// the harness may make a model request. Its one message has the steps from before and after the handover.
func TestContinued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness()
		h.away.Store(3)
		d := &writer{begun: time.Now()}
		r := readyTo(t, h, false, handed(record.ApprovalPending))
		r.Begin(d, func(*runs.Run) {})
		synctest.Wait()
		if a, err := r.Answer("q", record.Resolution{State: record.ApprovalApproved, By: "ada"}); err != nil ||
			a.State != record.ApprovalApproved {
			t.Errorf("an answer before a harness is there: %+v, %v", a, err)
		}
		<-h.gone
		if last := d.last(); last.Adopted != "r" || last.Audit[0].EventType != "run.continued" {
			t.Errorf("adopted %+v", last)
		}
		agents := h.start.Continued.Agents(h.start.Run)
		if len(agents) != 1 || agents[0].Steps != 1 || agents[0].Open == nil || len(agents[0].Results) != 1 ||
			agents[0].Calls != 2 || agents[0].Asked[0] != (contract.AskedCall{CallID: "c", ApprovalID: "q"}) {
			t.Errorf("the harness is given %+v", agents)
		}
		before := len(d.changes)
		h.events <- question("q")
		if got := <-h.decided; got.approval != "q" || got.Verdict != contract.Approved {
			t.Errorf("the harness is told %+v", got)
		}
		if len(d.changes) != before {
			t.Errorf("a question of before is stored again: %+v", d.last())
		}
		h.events <- result(2, "c")
		h.events <- contract.StepDone{Step: 2}
		<-h.stored
		h.events <- turn(3, false)
		h.events <- contract.Finished{Outcome: contract.Completed}
		<-r.Done()
		end := d.last()
		if end.EndRun == nil || end.EndRun.State != record.RunCompleted || end.EndRun.Steps != 3 {
			t.Fatalf("end %+v", end.EndRun)
		}
		var results []string
		for _, b := range end.Messages[0].Blocks {
			if b.Result != nil {
				results = append(results, b.Result.Content)
			}
		}
		if got := strings.Join(results, ", "); got != "of a, of b, of c" {
			t.Errorf("the message has the results %s", got)
		}
	})
}

// A question that was answered during the handover, or whose subject has changed, is not asked again.
func TestContinuedQuestion(t *testing.T) {
	for name, c := range map[string]struct {
		state   record.ApprovalState
		command string
		want    contract.Verdict
	}{
		"answered":          {record.ApprovalApproved, "git push --force", contract.Approved},
		"refused":           {record.ApprovalDenied, "git push --force", contract.Denied},
		"another effect":    {record.ApprovalApproved, "git push --force origin", contract.Denied},
		"open, and another": {record.ApprovalPending, "git push --force origin", contract.Denied},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := newHarness()
			d := &writer{begun: time.Now()}
			r := readyTo(t, h, false, handed(c.state))
			r.Begin(d, func(*runs.Run) {})
			<-h.gone
			q := question("q")
			q.Subject.Command = c.command
			h.events <- q
			if got := <-h.decided; got.approval != "q" || got.Verdict != c.want {
				t.Errorf("%s: the harness is told %+v", name, got)
			}
			h.events <- contract.Finished{Outcome: contract.Completed}
			<-r.Done()
		})
	}
}

// A run that no harness accepts in time ends as interrupted, with its steps. If it is handed over before a harness
// accepts it, no row is written.
func TestContinuedWithoutAHarness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness()
		h.failure = fault.New(fault.Unavailable, "The harness is away.")
		d := &writer{begun: time.Now()}
		r := readyTo(t, h, false, handed(record.ApprovalPending))
		r.Begin(d, func(*runs.Run) {})
		<-r.Done()
		end := d.last()
		if end.EndRun == nil || end.EndRun.Error.Code != fault.Interrupted || end.EndRun.Steps != 2 ||
			time.Since(d.begun) < time.Minute-time.Second {
			t.Errorf("after %v: %+v", time.Since(d.begun), end.EndRun)
		}

		d = &writer{begun: time.Now()}
		r = readyTo(t, h, false, handed(record.ApprovalPending))
		r.Begin(d, func(*runs.Run) {})
		synctest.Wait()
		r.HandOver()
		<-r.Done()
		if len(d.changes) != 0 || r.Handed() {
			t.Errorf("%+v", d.changes)
		}
	})
}

// A run that a stopping harness refuses is given to another, and adopted once. Where it is to be handed over meanwhile,
// it is released as it stands, because nothing of it was begun.
func TestAStoppingHarnessRefuses(t *testing.T) {
	for _, continued := range []bool{false, true} {
		for _, handedOver := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				h := newHarness()
				first, second := make(chan struct{}), make(chan struct{})
				h.refusals <- first
				h.refusals <- second
				var c *runs.Continued
				if continued {
					c = handed(record.ApprovalApproved)
				}
				d := &writer{begun: time.Now()}
				r := readyTo(t, h, false, c)
				r.Begin(d, func(*runs.Run) {})
				close(first)
				synctest.Wait()
				if handedOver {
					r.HandOver()
				}
				close(second)
				if !handedOver {
					<-h.gone
					h.events <- contract.Finished{Outcome: contract.Cancelled}
				}
				<-r.Done()
				adopted := 0
				for _, change := range d.changes {
					if change.Adopted != "" {
						adopted++
					}
				}
				if last := d.last(); (last.Released != nil) != handedOver || r.Handed() != handedOver ||
					(last.EndRun != nil) == handedOver || (adopted == 1) != continued {
					t.Errorf("continued %v, handed over %v: adopted %d times, last %+v", continued, handedOver, adopted, last)
				}
			})
		}
	}
}
