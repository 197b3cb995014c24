package sessionmanager

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

// A cancellation reaches the harness, keeps the received part of the answer, and ends the run as cancelled; a
// second cancellation is refused. A-RUN-CANCEL-01, A-RUN-CANCEL-02, H-CANCEL-01.
func TestCancel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s := n.session("ada")
	reason := make(chan string, 1)
	w.harness.expect(func(p *play) {
		p.model()
		p.delta("Once upon")
		reason <- p.hang()
		p.finish(&harnessv1.RunFinished{
			Outcome: harnessv1.Outcome_OUTCOME_CANCELLED, StopReason: harnessv1.StopReason_STOP_REASON_ABORTED,
			Partial: []*harnessv1.Block{text("Once upon")},
		})
	})
	posted := n.post("ada", s, "Tell a story.")
	w.await(s, "output", "message.delta")
	resp, err := n.Sessions.CancelRun(as(t, "ada"), &apiv1.CancelRunRequest{SessionId: s, RunId: posted.GetRunId()})
	if err != nil || resp.GetRun().GetOutcome() != "cancelled" || resp.GetRun().GetStopReason() != "aborted" {
		t.Fatalf("cancelled run = %v, %v", resp.GetRun(), err)
	}
	if got := <-reason; got != "The operator cancelled the run." {
		t.Errorf("the harness was told %q", got)
	}
	if m := n.messages("ada", s); len(m) != 2 || m[1].GetContent() != "Once upon" ||
		m[1].GetMetadata().GetStopReason() != "aborted" {
		t.Errorf("messages = %v", m)
	}
	output := w.await(s, "output", "message.end")
	if end := output[len(output)-1]; !strings.Contains(end, `"stop_reason":"aborted"}`) {
		t.Errorf("the end has stats or usage, though no step was measured: %s", end)
	}
	w.await(s, "events", `session.state {"state":"idle"}`)
	_, err = n.Sessions.CancelRun(as(t, "ada"), &apiv1.CancelRunRequest{SessionId: s, RunId: posted.GetRunId()})
	if f := refused(t, err, fault.Conflict); f.Details["current_state"] != "cancelled" {
		t.Errorf("details = %v", f.Details)
	}
}

// If a harness ignores a cancellation, its stream is closed, and the run ends as cancelled with its steps.
func TestCancelIgnored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s := n.session("ada")
	w.harness.expect(func(p *play) {
		p.model()
		p.turn(1, true, text("I work."), call("c1", "shell.bash", `{"command":"sleep 100"}`))
		<-p.stream.Context().Done()
		panic(errGone)
	})
	posted := n.post("ada", s, "Work.")
	eventually(t, "a step is stored", func() error {
		resp, err := n.Sessions.GetRun(as(t, "ada"), &apiv1.GetRunRequest{SessionId: s, RunId: posted.GetRunId()})
		if err == nil && len(resp.GetRun().GetSteps()) == 0 {
			err = fmt.Errorf("none yet")
		}
		return err
	})
	resp, err := n.Sessions.CancelRun(as(t, "ada"), &apiv1.CancelRunRequest{SessionId: s, RunId: posted.GetRunId()})
	if err != nil || resp.GetRun().GetOutcome() != "cancelled" {
		t.Fatalf("cancelled run = %v, %v", resp.GetRun(), err)
	}
	answer := n.messages("ada", s)[1]
	if n := len(answer.GetParts()); n != 3 || !strings.Contains(answer.GetParts()[2].GetOutput(), `"code":"cancelled"`) ||
		!answer.GetParts()[2].GetIsError() {
		t.Errorf("parts = %v", answer.GetParts())
	}
}

// If the harness dies during a run, the run fails as interrupted with its completed steps, every call has a result,
// and the session accepts the next message with that history. H-STREAM-FAF-01, H-STORE-05.
func TestHarnessDies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s := n.session("ada")
	w.harness.expect(func(p *play) {
		p.model()
		p.turn(1, true, call("c1", "file.write", `{"path":"a"}`))
		p.tool(1, "c1", "file.write", `{"path":"a"}`, "written")
		p.done(1)
		p.turn(2, true, text("More."), call("c2", "file.write", `{"path":"b"}`))
		p.delta("and th")
		p.crash()
	})
	run := n.run("ada", s, n.post("ada", s, "Write.").GetRunId())
	w.harness.next()
	if run.GetOutcome() != "failed" || run.GetError().GetCode() != commonv1.ErrorCode_ERROR_CODE_INTERRUPTED ||
		len(run.GetSteps()) != 2 ||
		run.GetTokensIn() != 24 {
		t.Errorf("run = %v", run)
	}
	output := w.await(s, "output", "message.end")
	if end := output[len(output)-1]; !strings.Contains(end, `"stop_reason":"error"`) ||
		!strings.Contains(end, `"error_message":"The run was cut off`) {
		t.Errorf("end = %s", end)
	}
	events := w.await(s, "events", `session.state {"state":"idle"}`)
	if got := events[len(events)-2]; !strings.Contains(got, `"outcome":"failed","error":{"code":"interrupted"`) {
		t.Errorf("run.ended = %s", got)
	}
	resp, err := n.Audit.QueryAudit(as(t, "ada"), &apiv1.QueryAuditRequest{Session: s, EventType: "tool.interrupted"})
	if err != nil || len(resp.GetItems()) != 1 || resp.GetItems()[0].GetPayload().
		GetFields()["tool_call_id"].GetStringValue() != "c2" {
		t.Errorf("the record of the call that was cut off: %v, %v", resp.GetItems(), err)
	}
	n.run("ada", s, n.post("ada", s, "Go on.").GetRunId())
	history := w.harness.next().history
	if len(history) != 6 || history[4].GetRole() != harnessv1.Role_ROLE_TOOL ||
		!strings.Contains(history[4].GetBlocks()[0].GetToolResult().GetContent(), `"code":"interrupted"`) {
		t.Errorf("history = %v", history)
	}
}

// If the project wants that, a run that lost its harness continues in a new run from its last completed step, a
// bounded number of times.
func TestResume(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.primary(onCrashResume)
	n := w.start("a", func(c *Config) { c.ResumeLimit = 2 })
	s := n.session("ada")
	die := func(p *play) {
		p.model()
		p.turn(1, true, call("c"+p.start.GetRunId(), "file.write", `{}`))
		p.tool(1, "c"+p.start.GetRunId(), "file.write", `{}`, "written")
		p.done(1)
		p.crash()
	}
	w.harness.expect(die, sayHello)
	n.run("ada", s, n.post("ada", s, "Write.").GetRunId())
	w.harness.next()
	second := w.harness.next()
	if got := n.run("ada", s, second.start.GetRunId()); got.GetOutcome() != "completed" {
		t.Errorf("the second run = %v", got)
	}
	if h := second.history; len(h) != 3 || h[2].GetRole() != harnessv1.Role_ROLE_TOOL ||
		h[2].GetBlocks()[0].GetToolResult().GetContent() != "written" {
		t.Errorf("it was given %v", h)
	}
	events := w.await(s, "events", `session.state {"state":"idle"}`)
	if count(events, "run.started") != 2 || count(events, "run.ended") != 2 {
		t.Errorf("events = %q", events)
	}
	w.harness.expect(die, die, die)
	n.post("ada", s, "Again.")
	var last *play
	for range 3 {
		last = w.harness.next()
	}
	n.run("ada", s, last.start.GetRunId())
	resp, err := n.Sessions.ListRuns(as(t, "ada"), &apiv1.ListRunsRequest{SessionId: s})
	if err != nil || len(resp.GetItems()) != 5 || resp.GetItems()[4].GetOutcome() != "failed" {
		t.Errorf("runs = %v, %v", resp.GetItems(), err)
	}
	if got := n.get("ada", s).GetState(); got != apiv1.SessionState_SESSION_STATE_IDLE {
		t.Errorf("the session is %s", got)
	}
}

// The next process resumes an interrupted run if the process that ended it stops while the run's dependencies are
// unavailable.
func TestResumeByTheNextProcess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.primary(onCrashResume)
	n := w.start("a")
	s := n.session("ada")
	w.harness.expect(func(p *play) {
		p.model()
		p.turn(1, true, call("c1", "file.write", `{}`))
		p.tool(1, "c1", "file.write", `{}`, "written")
		p.done(1)
		w.tools.leave(true)
		p.crash()
	})
	first := n.run("ada", s, n.post("ada", s, "Write.").GetRunId())
	w.harness.next()
	n.Stop()
	w.tools.leave(false)
	n = w.start("b")
	second := w.harness.next()
	if h := second.history; len(h) != 3 || h[2].GetBlocks()[0].GetToolResult().GetContent() != "written" {
		t.Errorf("it was given %v", h)
	}
	if got := n.run("ada", s, second.start.GetRunId()); got.GetOutcome() != "completed" ||
		got.GetTriggerMessageId() != first.GetTriggerMessageId() {
		t.Errorf("the second run = %v", got)
	}
	if records := n.recorded("ada", s); times(records, "run.resumed") != 1 || times(records, "run.not_resumed") != 0 {
		t.Errorf("%v", records)
	}
}

// A resumed run begins only once the harness has accepted it: a long outage of the harness does not use up
// resumptions.
func TestResumeWaitsForTheHarness(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.primary(onCrashResume)
	n := w.start("a", func(c *Config) { c.ResumeLimit = 1 })
	s := n.session("ada")
	w.harness.expect(func(p *play) {
		p.model()
		w.harness.away.Store(true)
		p.crash()
	})
	n.run("ada", s, n.post("ada", s, "Go.").GetRunId())
	w.harness.next()
	eventually(t, "the harness is asked again", func() error {
		if n := w.harness.refused.Load(); n < 3 {
			return fmt.Errorf("%d times so far", n)
		}
		return nil
	})
	w.harness.away.Store(false)
	if got := n.run("ada", s, w.harness.next().start.GetRunId()); got.GetOutcome() != "completed" {
		t.Errorf("the second run = %v", got)
	}
	resp, err := n.Sessions.ListRuns(as(t, "ada"), &apiv1.ListRunsRequest{SessionId: s})
	if err != nil || len(resp.GetItems()) != 2 {
		t.Errorf("runs = %v, %v", resp.GetItems(), err)
	}
}

// A run that cannot be resumed is given up for good, with an audit record of the reason. A new message and the end
// of the session give it up too.
func TestResumeGivenUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.primary(onCrashResume)
	n := w.start("a")
	s, ended := n.session("ada"), n.session("ada")
	prompt := filepath.Join(w.project, "prompt.md")
	w.harness.expect(func(p *play) {
		p.model()
		if err := os.Rename(prompt, prompt+".away"); err != nil {
			t.Error(err)
		}
		p.crash()
	})
	n.run("ada", s, n.post("ada", s, "Go.").GetRunId())
	eventually(t, "the record says so", func() error {
		if records := n.recorded("ada", s); times(records, "run.not_resumed") != 1 {
			return fmt.Errorf("%v", records)
		}
		return nil
	})
	if err := os.Rename(prompt+".away", prompt); err != nil {
		t.Fatal(err)
	}
	w.harness.expect(func(p *play) {
		p.model()
		w.tools.leave(true)
		p.crash()
	})
	n.run("ada", ended, n.post("ada", ended, "Go.").GetRunId())
	if got := n.get("ada", ended); got.GetBlockedReason() != "resume_pending" {
		t.Errorf("got blocked_reason %q while the run is to be resumed, want resume_pending", got.GetBlockedReason())
	}
	w.await(ended, "events", `session.state {"state":"idle","blocked_reason":"resume_pending"}`)
	if _, err := n.Sessions.EndSession(as(t, "ada"), &apiv1.EndSessionRequest{Id: ended, Confirm: true}); err != nil {
		t.Error(err)
	}
	if records := n.recorded("ada", ended); times(records, "run.not_resumed") != 1 {
		t.Errorf("got %v, want one run.not_resumed for the session that was ended", records)
	}
	n.Stop()
	w.tools.leave(false)
	admin := w.connect(w.owner)
	defer admin.Close(context.WithoutCancel(t.Context()))
	left := 0
	if err := admin.QueryRow(t.Context(), "select count(*) from session_manager.sessions where resume_run is not null").
		Scan(&left); err != nil || left != 0 {
		t.Errorf("%d runs are still to be resumed, %v", left, err)
	}
	n = w.start("a")
	n.run("ada", s, n.post("ada", s, "Again.").GetRunId())
	if got := len(w.harness.began); got != 3 {
		t.Errorf("%d runs began for three messages", got)
	}
}

// A message that comes before an interrupted run is resumed takes its place, and the audit log says so.
func TestMessageInsteadOfResuming(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.primary(onCrashResume)
	n := w.start("a")
	s := n.session("ada")
	w.harness.expect(func(p *play) {
		p.model()
		w.harness.away.Store(true)
		p.crash()
	})
	first := n.run("ada", s, n.post("ada", s, "Go.").GetRunId())
	w.harness.next()
	eventually(t, "resuming is tried", func() error {
		if w.harness.refused.Load() == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	if got := n.get("ada", s); got.GetBlockedReason() != "resume_pending" ||
		got.GetState() != apiv1.SessionState_SESSION_STATE_IDLE {
		t.Errorf("got %s with blocked_reason %q, want idle with resume_pending", got.GetState(), got.GetBlockedReason())
	}
	n.run("ada", s, n.post("ada", s, "Something else.").GetRunId())
	resp, err := n.Audit.QueryAudit(as(t, "ada"), &apiv1.QueryAuditRequest{Session: s, EventType: "run.not_resumed"})
	if err != nil || len(resp.GetItems()) != 1 || resp.GetItems()[0].GetRunId() != first.GetId() {
		t.Errorf("got %v and error %v, want one record about run %s", resp.GetItems(), err, first.GetId())
	}
	if got := n.get("ada", s).GetBlockedReason(); got != "" {
		t.Errorf("got blocked_reason %q after the run, want none", got)
	}
}

// A provider that cannot be reached is reported on the message, the run and the session, until a run succeeds
// again. A-FAIL-03, A-CONTRA-18, H-FAIL-GEN-01.
func TestProviderUnreachable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s := n.session("ada")
	w.harness.expect(func(p *play) {
		p.finish(failure(commonv1.ErrorCode_ERROR_CODE_PROVIDER_UNREACHABLE, "Provider unreachable.", 503))
	}, func(p *play) {
		p.finish(failure(commonv1.ErrorCode_ERROR_CODE_PROVIDER_AUTH_FAILED, "No.", 401))
	})
	run := n.run("ada", s, n.post("ada", s, "Hi.").GetRunId())
	if run.GetError().GetCode() != commonv1.ErrorCode_ERROR_CODE_PROVIDER_UNREACHABLE {
		t.Errorf("run = %v", run)
	}
	answer := n.messages("ada", s)[1]
	if m := answer.GetMetadata(); m.GetErrorMessage() != "Provider unreachable." ||
		m.GetErrorCode() != "provider_unreachable" || m.GetErrorStatus() != 503 {
		t.Errorf("metadata = %v", m)
	}
	if got := n.get("ada", s).GetBlockedReason(); got != "provider_unreachable" {
		t.Errorf("blocked_reason = %q", got)
	}
	w.await(s, "events", `session.state {"state":"idle","blocked_reason":"provider_unreachable"}`)
	n.run("ada", s, n.post("ada", s, "Hi.").GetRunId())
	if got := n.get("ada", s).GetBlockedReason(); got != "provider_unreachable" {
		t.Errorf("after another failure blocked_reason = %q", got)
	}
	n.run("ada", s, n.post("ada", s, "Hi.").GetRunId())
	if got := n.get("ada", s); got.BlockedReason != nil {
		t.Errorf("after a success blocked_reason = %q", got.GetBlockedReason())
	}
	w.await(s, "events", `session.state {"state":"idle"}`)
}

// A harness that breaks the protocol fails the run with an error, and the session continues.
func TestHarnessMisbehaves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s := n.session("ada")
	for name, c := range map[string]struct {
		play func(*play)
		code commonv1.ErrorCode
	}{
		"a step without a turn": {func(p *play) {
			p.send(&harnessv1.RunEvent{Event: &harnessv1.RunEvent_StepDone{StepDone: &harnessv1.StepDone{Step: 1}}})
			p.hang()
		}, commonv1.ErrorCode_ERROR_CODE_INTERNAL},
		"a step twice": {func(p *play) {
			p.model()
			p.turn(1, true, text("a"))
			p.turn(1, false, text("b"))
			p.hang()
		}, commonv1.ErrorCode_ERROR_CODE_INTERNAL},
		"no reason": {
			func(p *play) {
				p.finish(&harnessv1.RunFinished{Outcome: harnessv1.Outcome_OUTCOME_FAILED})
			}, commonv1.ErrorCode_ERROR_CODE_INTERNAL,
		},
		"no end":       {func(*play) {}, commonv1.ErrorCode_ERROR_CODE_INTERRUPTED},
		"its own code": {func(p *play) { panic(errRefused) }, commonv1.ErrorCode_ERROR_CODE_PAYLOAD_TOO_LARGE},
	} {
		w.harness.expect(c.play)
		run := n.run("ada", s, n.post("ada", s, "Go.").GetRunId())
		if run.GetOutcome() != "failed" || run.GetError().GetCode() != c.code || run.GetError().GetMessage() == "" {
			t.Errorf("%s: run = %v", name, run)
		}
	}
	n.run("ada", s, n.post("ada", s, "Go.").GetRunId())
	if got := n.get("ada", s).GetState(); got != apiv1.SessionState_SESSION_STATE_IDLE {
		t.Errorf("the session is %s", got)
	}
}

// If the harness is unavailable when a message comes, only that message's run fails; the next run works again.
func TestHarnessAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a", func(c *Config) { c.HarnessTimeout = config.Duration(50 * time.Millisecond) })
	s := n.session("ada")
	w.harness.expect(func(p *play) { panic(errAway) })
	run := n.run("ada", s, n.post("ada", s, "Go.").GetRunId())
	if run.GetOutcome() != "failed" || run.GetError().GetCode() != commonv1.ErrorCode_ERROR_CODE_INTERRUPTED {
		t.Errorf("run = %v", run)
	}
	if m := n.messages("ada", s); len(m) != 2 || m[1].GetContent() != "" ||
		m[1].GetMetadata().GetErrorCode() != "interrupted" {
		t.Errorf("messages = %v", m)
	}
	n.run("ada", s, n.post("ada", s, "Again.").GetRunId())
	w.harness.next()
	var said []string
	for _, m := range w.harness.next().history {
		said = append(said, m.GetBlocks()[0].GetText().GetText())
	}
	if d := cmp.Diff([]string{"Go.", "Again."}, said); d != "" {
		t.Error(d)
	}
}

// Invalid numbers are dropped, and the run completes.
func TestOddNumbers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s := n.session("ada")
	w.harness.expect(func(p *play) {
		p.model()
		p.finish(&harnessv1.RunFinished{
			Outcome: harnessv1.Outcome_OUTCOME_COMPLETED, StopReason: harnessv1.StopReason_STOP_REASON_STOP,
			Stats: &harnessv1.Stats{DurationMs: 0, Tps: math.Inf(1), Cost: &harnessv1.Cost{Total: math.NaN()}},
		})
	})
	if run := n.run("ada", s, n.post("ada", s, "Go.").GetRunId()); run.GetOutcome() != "completed" ||
		run.GetCostTotal() != 0 {
		t.Errorf("run = %v", run)
	}
	w.await(s, "output", "message.end")
}

// If the store refuses one step, the run ends and the session continues. A session with unreadable steps fails,
// says so, and accepts messages.
func TestUnstorable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	admin := w.connect(w.owner)
	defer admin.Close(t.Context())
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := admin.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	s := n.session("ada")
	w.harness.expect(func(p *play) {
		p.model()
		p.turn(1, true, call("c1", "file.read", `{}`))
		exec("alter table session_manager.run_steps add constraint odd check (part = 1) not valid")
		p.tool(1, "c1", "file.read", `{}`, "x")
		p.done(1)
	})
	run := n.run("ada", s, n.post("ada", s, "Go.").GetRunId())
	if run.GetOutcome() != "failed" || len(run.GetSteps()) != 1 {
		t.Errorf("run = %v", run)
	}
	exec("alter table session_manager.run_steps drop constraint odd")
	if got := n.get("ada", s).GetState(); got != apiv1.SessionState_SESSION_STATE_IDLE {
		t.Errorf("the session is %s", got)
	}

	s = n.session("ada")
	stay := make(chan struct{})
	w.harness.expect(func(p *play) {
		p.model()
		p.turn(1, true, call("c1", "file.read", `{}`))
		close(stay)
		p.hang()
	})
	posted := n.post("ada", s, "Go.")
	<-stay
	exec("update session_manager.run_steps set body = 'garbage' where run_id = $1", posted.GetRunId())
	next := w.start("a")
	eventually(t, "the session has failed", func() error {
		if got := next.get("ada", s).GetState(); got != apiv1.SessionState_SESSION_STATE_FAILED {
			return fmt.Errorf("it is %s", got)
		}
		return nil
	})
	w.await(s, "events", `session.state {"state":"failed"}`)
	again := "Again."
	eventually(t, "the message is taken by the process that holds the session", func() (err error) {
		for _, at := range []*node{next, n} { // the first may take a lease that the other has just released
			posted, err = at.Sessions.PostMessage(as(t, "ada"), &apiv1.PostMessageRequest{SessionId: s, Content: &again})
			if err == nil || !errors.Is(err, fault.StaleLease) {
				break
			}
		}
		return err
	})
	next.run("ada", s, posted.GetRunId())
	if got := next.get("ada", s).GetState(); got != apiv1.SessionState_SESSION_STATE_IDLE {
		t.Errorf("the session is %s", got)
	}
}

// Loading an interrupted session fails while the store refuses its repair, and succeeds once the store accepts it.
func TestUnstorableRepair(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	admin := w.connect(w.owner)
	defer admin.Close(t.Context())
	exec := func(sql string) {
		t.Helper()
		if _, err := admin.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	s := n.session("ada")
	stay := make(chan struct{})
	w.harness.expect(func(p *play) {
		p.model()
		close(stay)
		p.hang()
	})
	n.post("ada", s, "Go.")
	<-stay
	exec("alter table session_manager.runs add constraint odd check (outcome is null) not valid")
	next := w.start("a")
	again := "Again."
	post := func() error {
		_, err := next.Sessions.PostMessage(as(t, "ada"), &apiv1.PostMessageRequest{SessionId: s, Content: &again})
		return err
	}
	eventually(t, "the repair is refused", func() error {
		if err := post(); !errors.Is(err, fault.Unavailable) && !errors.Is(err, fault.Internal) {
			return fmt.Errorf("got %w", err)
		}
		return nil
	})
	exec("alter table session_manager.runs drop constraint odd")
	eventually(t, "a message is taken", post)
}
