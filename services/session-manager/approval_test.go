package sessionmanager

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

// ask requests an approval like the harness, and returns the answer.
func (p *play) ask(id, callID, command string) *harnessv1.ApprovalDecision {
	p.asks(id, callID, command)
	return p.decision()
}

func (p *play) asks(id, callID, command string) {
	p.send(&harnessv1.RunEvent{Event: &harnessv1.RunEvent_Approval{Approval: &harnessv1.ApprovalRequested{
		ApprovalId: id, ToolCallId: callID, Step: 1, Audit: auditRecords("tool.called", "tool.approval.requested"),
		Subject: &commonv1.ApprovalSubject{
			Tool: "shell.bash", AgentPath: "primary", Reasons: []string{"It is destructive."}, Command: command, Cwd: "./",
			Paths: []string{"./a"},
		},
	}}})
}

func (p *play) decision() *harnessv1.ApprovalDecision {
	select {
	case d := <-p.decided:
		return d
	case <-p.stream.Context().Done():
		panic(errGone)
	}
}

// asking is a run that requests an approval for one command, and passes the answer to decided.
func asking(id, command string, decided chan<- *harnessv1.ApprovalDecision) func(*play) {
	return func(p *play) {
		p.model()
		p.turn(1, true, call("c1", "shell.bash", `{}`))
		decided <- p.ask(id, "c1", command)
		p.tool(1, "c1", "shell.bash", `{}`, "ran")
		p.done(1)
		p.complete(1)
	}
}

func (n *node) answer(user, session, id, decision, comment string) (*apiv1.Approval, error) {
	resp, err := n.Sessions.AnswerApproval(as(n.w.t, user), &apiv1.AnswerApprovalRequest{
		SessionId: session, ApprovalId: id, Decision: decision, Comment: comment,
	})
	return resp.GetApproval(), err
}

func (n *node) approval(user, session, id string) *apiv1.Approval {
	n.w.t.Helper()
	resp, err := n.Sessions.GetApproval(as(n.w.t, user), &apiv1.GetApprovalRequest{SessionId: session, ApprovalId: id})
	if err != nil {
		n.w.t.Fatal(err)
	}
	return resp.GetApproval()
}

// states returns the states of a session's approvals, newest first.
func (n *node) states(user, session, state string) []string {
	n.w.t.Helper()
	resp, err := n.Sessions.ListApprovals(as(n.w.t, user), &apiv1.ListApprovalsRequest{SessionId: session, State: state})
	if err != nil {
		n.w.t.Fatal(err)
	}
	var list []string
	for _, a := range resp.GetItems() {
		list = append(list, strings.ToLower(strings.TrimPrefix(a.GetState().String(), "APPROVAL_STATE_")))
	}
	return list
}

// An operator sees the pending approvals of all own sessions, newest first, page by page, and none of another
// operator.
func TestApprovalsOfAllSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	decided := make(chan *harnessv1.ApprovalDecision, 3)
	var want []string
	for _, user := range []string{"ada", "eve", "ada"} {
		s, id := n.session(user), ident.New()
		w.harness.expect(asking(id, "git push", decided))
		n.post(user, s, "Push.")
		w.await(s, "events", "approval.requested")
		if user == "ada" {
			want = append([]string{s + " " + id}, want...)
		}
	}
	list := func(user, state string, limit int32) (all []string) {
		t.Helper()
		for req := (&apiv1.ListAllApprovalsRequest{State: state, Limit: limit}); ; {
			resp, err := n.Sessions.ListAllApprovals(as(t, user), req)
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range resp.GetItems() {
				all = append(all, a.GetSessionId()+" "+a.GetId())
			}
			if req.Cursor = resp.GetNextCursor(); !resp.GetHasMore() {
				return all
			}
		}
	}
	if got := list("ada", "pending", 1); !slices.Equal(got, want) {
		t.Errorf("ada's are %q, want %q", got, want)
	}
	if got := list("eve", "pending", 0); len(got) != 1 {
		t.Errorf("eve's are %q", got)
	}
	session, id, _ := strings.Cut(want[0], " ")
	if _, err := n.answer("ada", session, id, "approve", ""); err != nil {
		t.Fatal(err)
	}
	if got := list("ada", "pending", 0); !slices.Equal(got, want[1:]) {
		t.Errorf("after an answer ada's are %q, want %q", got, want[1:])
	}
	for state, count := range map[string]int{"": 2, "approved": 1, "denied": 0} {
		if got := list("ada", state, 1); len(got) != count {
			t.Errorf("%q: %q, want %d", state, got, count)
		}
	}
	_, err := n.Sessions.ListAllApprovals(as(t, "ada"), &apiv1.ListAllApprovalsRequest{State: "nope"})
	refused(t, err, fault.ValidationFailed)
}

// A tool call that waits for approval is stored, shown as a frame, listed, and answered once by its operator. The
// harness receives the answer with the comment, and the audit log has each step (T-CAT-04).
func TestApproval(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	for _, c := range []struct {
		decision, state, event string
		verdict                harnessv1.ApprovalVerdict
	}{
		{"approve", "approved", "tool.approval.granted", harnessv1.ApprovalVerdict_APPROVAL_VERDICT_APPROVED},
		{"deny", "denied", "tool.approval.denied", harnessv1.ApprovalVerdict_APPROVAL_VERDICT_DENIED},
	} {
		s, id, decided := n.session("ada"), ident.New(), make(chan *harnessv1.ApprovalDecision, 1)
		w.harness.expect(asking(id, "git push --force", decided))
		posted := n.post("ada", s, "Push.")
		asked := w.await(s, "events", "approval.requested")
		a := n.approval("ada", s, id)
		want := fmt.Sprintf(`approval.requested {"approval_id":%q,"run_id":%q,"message_id":%q,"tool_call_id":"c1",`+
			`"subject":{"tool":"shell.bash",`+
			`"agent_path":"primary","reasons":["It is destructive."],"command":"git push `+
			`--force","cwd":"./","paths":["./a"],"preview":""},`+
			`"requested_at":%d,"expires_at":%d,"hash":%q}`, id, posted.GetRunId(), w.harness.next().start.GetMessageId(),
			a.GetRequestedAt(), a.GetExpiresAt(), a.GetHash())
		if d := cmp.Diff(want, asked[len(asked)-1]); d != "" {
			t.Error(d)
		}
		if a.GetState() != apiv1.ApprovalState_APPROVAL_STATE_PENDING || a.GetRunId() != posted.GetRunId() ||
			a.ResolvedAt != nil ||
			a.GetExpiresAt()-a.GetRequestedAt() != (10*time.Minute).Milliseconds() ||
			a.GetSubject().GetCommand() != "git push --force" {
			t.Errorf("approval = %v", a)
		}
		if got := n.states("ada", s, "pending"); !slices.Equal(got, []string{"pending"}) {
			t.Errorf("pending: %v", got)
		}
		answered, err := n.answer("ada", s, id, c.decision, "as you like")
		if err != nil || answered.GetResolvedBy() != "ada" || answered.GetComment() != "as you like" ||
			answered.GetResolvedAt() == 0 {
			t.Errorf("%v, %v", answered, err)
		}
		if d := <-decided; d.GetVerdict() != c.verdict || d.GetApprovalId() != id || d.GetComment() != "as you like" {
			t.Errorf("the harness heard %v", d)
		}
		if run := n.run("ada", s, posted.GetRunId()); run.GetOutcome() != "completed" {
			t.Errorf("run = %v", run)
		}
		events := w.await(s, "events", `session.state {"state":"idle"}`)
		if !slices.ContainsFunc(events, func(f string) bool {
			return strings.HasPrefix(f, "approval.resolved") &&
				strings.Contains(f, `"state":"`+c.state+`","resolved_by":"ada","comment":"as you like"`)
		}) {
			t.Errorf("events: %v", events)
		}
		if got := n.states("ada", s, ""); !slices.Equal(got, []string{c.state}) || len(n.states("ada", s, "pending")) != 0 {
			t.Errorf("states: %v", got)
		}
		records := n.recorded("ada", s)
		for _, want := range []string{"tool.approval.requested", c.event} {
			if times(records, want) != 1 {
				t.Errorf("%s is recorded %d times: %v", want, times(records, want), records)
			}
		}
		_, err = n.answer("ada", s, id, "approve", "")
		if f := refused(t, err, fault.Conflict); f.Details["current_state"] != c.state {
			t.Errorf("a second answer: %v", f.Details)
		}
	}
}

// An invalid answer is refused, and another operator cannot see a session's approvals.
func TestApprovalRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s, id, decided := n.session("ada"), ident.New(), make(chan *harnessv1.ApprovalDecision, 1)
	other := n.session("ada")
	w.harness.expect(asking(id, "x", decided))
	posted := n.post("ada", s, "Do.")
	w.await(s, "events", "approval.requested")
	for _, c := range []struct {
		user, session, id, decision, comment string
		want                                 fault.Code
	}{
		{"ada", s, id, "maybe", "", fault.ValidationFailed},
		{"ada", s, id, "", "", fault.ValidationFailed},
		{"ada", s, id, "approve", strings.Repeat("x", 2001), fault.ValidationFailed},
		{"ada", s, ident.New(), "approve", "", fault.NotFound},
		{"ada", s, strings.Repeat("x", 300), "approve", "", fault.NotFound},
		{"ada", other, id, "approve", "", fault.NotFound},
		{"eve", s, id, "approve", "", fault.NotFound},
		{"", s, id, "approve", "", fault.Unauthenticated},
	} {
		_, err := n.answer(c.user, c.session, c.id, c.decision, c.comment)
		refused(t, err, c.want)
	}
	for user, want := range map[string]fault.Code{"eve": fault.NotFound, "": fault.Unauthenticated} {
		_, err := n.Sessions.ListApprovals(as(t, user), &apiv1.ListApprovalsRequest{SessionId: s})
		refused(t, err, want)
		_, err = n.Sessions.GetApproval(as(t, user), &apiv1.GetApprovalRequest{SessionId: s, ApprovalId: id})
		refused(t, err, want)
	}
	_, err := n.Sessions.ListApprovals(as(t, "ada"), &apiv1.ListApprovalsRequest{SessionId: s, State: "open"})
	refused(t, err, fault.ValidationFailed)
	// One of many simultaneous answers succeeds.
	var answers sync.WaitGroup
	errs := make([]error, 6)
	for i := range errs {
		answers.Go(func() { _, errs[i] = n.answer("ada", s, id, "deny", "") })
	}
	answers.Wait()
	if count := slices.IndexFunc(errs, func(err error) bool { return err == nil }); count < 0 {
		t.Errorf("no answer succeeded: %v", errs)
	}
	late := slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(late) != 5 {
		t.Errorf("%d were late", len(late))
	}
	for _, err := range late {
		if !errors.Is(err, fault.Conflict) {
			t.Error(err)
		}
	}
	<-decided
	n.run("ada", s, posted.GetRunId())
}

// An approval without an answer in time expires: the call is refused and the audit log has the expiry.
func TestApprovalExpires(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a", func(c *Config) { c.ApprovalTimeout = config.Duration(100 * time.Millisecond) })
	s, id, decided := n.session("ada"), ident.New(), make(chan *harnessv1.ApprovalDecision, 1)
	w.harness.expect(asking(id, "x", decided))
	posted := n.post("ada", s, "Do.")
	if d := <-decided; d.GetVerdict() != harnessv1.ApprovalVerdict_APPROVAL_VERDICT_EXPIRED {
		t.Errorf("the harness heard %v", d)
	}
	n.run("ada", s, posted.GetRunId())
	if a := n.approval("ada", s, id); a.GetState() != apiv1.ApprovalState_APPROVAL_STATE_EXPIRED || a.ResolvedBy != nil ||
		a.GetResolvedAt() < a.GetExpiresAt() {
		t.Errorf("%v", a)
	}
	if records := n.recorded("ada", s); times(records, "tool.approval.expired") != 1 {
		t.Errorf("%v", records)
	}
	_, err := n.answer("ada", s, id, "approve", "")
	if f := refused(t, err, fault.Conflict); f.Details["current_state"] != "expired" {
		t.Errorf("%v", f.Details)
	}
}

// Cancelling a run, or ending its session, closes its approvals.
func TestCancelClosesApprovals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	for _, end := range []string{"run", "session"} {
		s, id := n.session("ada"), ident.New()
		w.harness.expect(func(p *play) {
			p.model()
			p.turn(1, true, call("c1", "shell.bash", `{}`))
			p.asks(id, "c1", "x")
			p.hang()
			p.finish(&harnessv1.RunFinished{
				Outcome: harnessv1.Outcome_OUTCOME_CANCELLED, StopReason: harnessv1.StopReason_STOP_REASON_ABORTED,
			})
		})
		posted := n.post("ada", s, "Do.")
		w.await(s, "events", "approval.requested")
		var err error
		last := `session.state {"state":"idle"}`
		if end == "session" {
			last = `session.state {"state":"ended"}`
		}
		if end == "run" {
			_, err = n.Sessions.CancelRun(as(t, "ada"), &apiv1.CancelRunRequest{SessionId: s, RunId: posted.GetRunId()})
		} else {
			_, err = n.Sessions.EndSession(as(t, "ada"), &apiv1.EndSessionRequest{Id: s, Confirm: true})
		}
		if err != nil {
			t.Fatal(err)
		}
		closed(t, n, s, id)
		events := strings.Join(w.await(s, "events", last), "\n")
		if !strings.Contains(events, `"state":"closed"`) ||
			strings.Index(events, "approval.resolved") > strings.Index(events, "run.ended") {
			t.Errorf("%s: %s", end, events)
		}
		_, err = n.answer("ada", s, id, "approve", "")
		if end == "run" {
			refused(t, err, fault.Conflict)
		} else {
			refused(t, err, fault.Gone)
		}
	}
}

// times returns the number of occurrences of a text in a list.
func times(list []string, text string) int {
	n := 0
	for _, have := range list {
		if have == text {
			n++
		}
	}
	return n
}

func closed(t *testing.T, n *node, s, id string) {
	t.Helper()
	if a := n.approval("ada", s, id); a.GetState() != apiv1.ApprovalState_APPROVAL_STATE_CLOSED || a.GetResolvedAt() == 0 {
		t.Errorf("%v", a)
	}
	if records := n.recorded("ada", s); times(records, "tool.approval.closed") != 1 {
		t.Errorf("%v", records)
	}
}

// If the process that holds a session is killed while a call waits for approval, the next holder ends the run as
// interrupted and closes the approval: one frame, one audit record, and no later answer (P14).
func TestKilledWhileAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.network(t)
	first, p := w.spawn(t, "one")
	s, id := first.session("ada"), ident.New()
	w.harness.expect(func(p *play) {
		p.model()
		p.turn(1, true, call("c1", "shell.bash", `{}`))
		p.ask(id, "c1", "x")
	})
	posted := first.post("ada", s, "Do.")
	w.await(s, "events", "approval.requested")
	p.kill()
	second := w.start("two")
	run := second.run("ada", s, posted.GetRunId())
	if run.GetError().GetCode() != commonv1.ErrorCode_ERROR_CODE_INTERRUPTED {
		t.Errorf("run = %v", run)
	}
	closed(t, second, s, id)
	events := w.await(s, "events", `session.state {"state":"idle"}`)
	if n := times(kinds(events), "approval.resolved"); n != 1 {
		t.Errorf("%d frames: %v", n, events)
	}
	_, err := second.answer("ada", s, id, "approve", "")
	if f := refused(t, err, fault.Conflict); f.Details["current_state"] != "closed" {
		t.Errorf("%v", f.Details)
	}
	// The session accepts messages again.
	if run := second.run("ada", s, second.post("ada", s, "Hello.").GetRunId()); run.GetOutcome() != "completed" {
		t.Errorf("run = %v", run)
	}
}

// Stopping does not wait for an operator's answer: the run ends as interrupted at once and its approvals are
// closed.
func TestStopWhileAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s, id := n.session("ada"), ident.New()
	w.harness.expect(func(p *play) {
		p.model()
		p.turn(1, true, call("c1", "shell.bash", `{}`))
		p.ask(id, "c1", "x")
	})
	posted := n.post("ada", s, "Do.")
	w.await(s, "events", "approval.requested")
	n.Stop()
	again := w.start("a")
	if run := again.run("ada", s, posted.GetRunId()); run.GetError().
		GetCode() != commonv1.ErrorCode_ERROR_CODE_INTERRUPTED {
		t.Errorf("run = %v", run)
	}
	closed(t, again, s, id)
}

// A very long approval is stored complete and shortened only in the frame. Text that Postgres cannot store does not
// end the run.
func TestLongApprovals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s, id, decided := n.session("ada"), ident.New(), make(chan *harnessv1.ApprovalDecision, 1)
	command := "echo \x00" + strings.Repeat("\x01", 64<<10)
	w.harness.expect(asking(id, command, decided))
	posted := n.post("ada", s, "Do.")
	asked := w.await(s, "events", "approval.requested")
	if frame := asked[len(asked)-1]; !strings.Contains(frame, `"truncated":true`) || len(frame) > 33<<10 {
		t.Errorf("a frame of %d bytes", len(frame))
	}
	if got := n.approval("ada", s, id).GetSubject().GetCommand(); len(got) < 64<<10 {
		t.Errorf("a command of %d bytes", len(got))
	}
	if _, err := n.answer("ada", s, id, "approve", ""); err != nil {
		t.Fatal(err)
	}
	<-decided
	n.run("ada", s, posted.GetRunId())
}
