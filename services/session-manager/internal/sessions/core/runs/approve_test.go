package runs_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/runs"
)

// question returns the harness's question for an operator.
func question(id string) contract.ApprovalRequested {
	return contract.ApprovalRequested{
		ID: id, CallID: "c",
		Subject: contract.Subject{Tool: "shell.bash", Command: "git push --force"}, Audit: []contract.Record{
			{Type: "tool.called", Payload: map[string]any{}}, {Type: "tool.approval.requested", Payload: map[string]any{}},
		},
	}
}

// sent returns the types of the frames of a change.
func sent(c record.Change) string {
	var list []string
	for _, d := range c.Outbox {
		list = append(list, d.Type)
	}
	return strings.Join(list, " ")
}

// A question is stored with its audit records and announced before it can be answered. The answer is stored before
// the harness receives it; a second answer is refused (T-CAT-04).
func TestAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness()
		r, d := begin(t, h, false)
		h.events <- turn(1, true, "c")
		<-h.stored
		h.events <- question("a")
		synctest.Wait()
		asked := d.last()
		if len(asked.Approvals) != 1 || sent(asked) != "approval.requested" || len(asked.Audit) != 2 ||
			asked.Audit[1].Payload["approval_id"] != "a" {
			t.Errorf("asked %+v", asked)
		}
		if a := asked.Approvals[0]; a.State != record.ApprovalPending || a.RunID != "r" ||
			a.ExpiresAt-a.RequestedAt != time.Minute.Milliseconds() {
			t.Errorf("approval %+v", a)
		}
		a, err := r.Answer("a", record.Resolution{State: record.ApprovalDenied, By: "ada", Comment: "no"})
		if err != nil || a.State != record.ApprovalDenied || a.ResolvedBy != "ada" {
			t.Errorf("%+v, %v", a, err)
		}
		answered := d.last()
		if answered.Answered == nil || sent(answered) != "approval.resolved" || len(answered.Audit) != 1 ||
			answered.Audit[0].EventType != "tool.approval.denied" {
			t.Errorf("answered %+v", answered)
		}
		if d := <-h.decided; d != (decision{"a", contract.Decision{Verdict: contract.Denied, Comment: "no"}}) {
			t.Errorf("the harness got %+v, want the refusal of a", d)
		}
		for _, id := range []string{"a", "another"} {
			if _, err := r.Answer(id, record.Resolution{State: record.ApprovalApproved}); !errors.Is(err, fault.Conflict) {
				t.Errorf("%s: %v", id, err)
			}
		}
		h.events <- contract.Finished{Outcome: contract.Completed}
		<-r.Done()
		if end := d.last(); sent(end) != "message.end run.ended session.state" {
			t.Errorf("end %s", sent(end))
		}
	})
}

// A question without an answer expires, and its call is refused.
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness()
		r, d := begin(t, h, false)
		h.events <- turn(1, true, "c")
		<-h.stored
		h.events <- question("a")
		if got := <-h.decided; got.Verdict != contract.Expired || time.Since(d.begun) != time.Minute {
			t.Errorf("%+v after %v", got, time.Since(d.begun))
		}
		if c := d.last(); c.Audit[0].EventType != "tool.approval.expired" || c.Answered.State != record.ApprovalExpired {
			t.Errorf("%+v", c)
		}
		h.events <- contract.Finished{Outcome: contract.Completed}
		<-r.Done()
	})
}

// The end of a run, with any outcome, closes its questions in the same change, each with a frame and an audit
// record.
func TestEndClosesQuestions(t *testing.T) {
	for name, end := range map[string]func(*harness, *runs.Run){
		"completed": func(h *harness, _ *runs.Run) { h.events <- contract.Finished{Outcome: contract.Completed} },
		"cancelled": func(h *harness, r *runs.Run) {
			r.Cancel("enough")
			<-h.cancels
			h.events <- contract.Finished{Outcome: contract.Cancelled}
		},
		"broken off": func(h *harness, _ *runs.Run) { close(h.events) },
	} {
		synctest.Test(t, func(t *testing.T) {
			h := newHarness()
			r, d := begin(t, h, false)
			h.events <- turn(1, true, "c")
			<-h.stored
			h.events <- question("a")
			h.events <- question("b")
			synctest.Wait()
			end(h, r)
			<-r.Done()
			last := d.last()
			if last.EndRun == nil || strings.Count(sent(last), "approval.resolved") != 2 ||
				!strings.HasSuffix(sent(last), "message.end run.ended session.state") {
				t.Errorf("%s: %s", name, sent(last))
			}
			closed := 0
			for _, r := range last.Audit {
				if r.EventType == "tool.approval.closed" {
					closed++
				}
			}
			if closed != 2 || time.Since(d.begun) >= time.Minute {
				t.Errorf("%s: %d records of closing after %v", name, closed, time.Since(d.begun))
			}
			if _, err := r.Answer("a", record.Resolution{State: record.ApprovalApproved}); !errors.Is(err, fault.Conflict) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// One of many simultaneous answers succeeds, and the run ends only after the harness has received it.
func TestRacingAnswers(t *testing.T) {
	t.Parallel()
	for range 50 {
		h := newHarness()
		r, d := begin(t, h, false)
		h.events <- turn(1, true, "c")
		<-h.stored
		h.events <- question("a")
		h.events <- contract.Delta{Text: "x"} // received only after the question
		var answers sync.WaitGroup
		var mu sync.Mutex
		heard := 0
		for range 8 {
			answers.Go(func() {
				if _, err := r.Answer("a", record.Resolution{State: record.ApprovalApproved}); err == nil {
					mu.Lock()
					heard++
					mu.Unlock()
				}
			})
		}
		h.events <- contract.Finished{Outcome: contract.Completed}
		answers.Wait()
		<-r.Done()
		closed := strings.Contains(sent(d.last()), "approval.resolved")
		if heard > 1 || closed == (heard == 1) || len(h.decided) != heard {
			t.Fatalf("%d answers were heard, closed %v, the harness heard %d", heard, closed, len(h.decided))
		}
	}
}
