package sessionmanager

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/bus"
	"kaged.dev/pkg/fault"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// crowded is a world with few slots.
func crowded(t *testing.T, perProject, perOperator int) *world {
	t.Helper()
	w := newWorld(t)
	w.configure(fmt.Sprintf(`[models]
smart = "fake:one"
[providers.fake]
driver = "openai-chat"
base_url = "http://127.0.0.1:1/v1"
[limits]
sessions_per_project = %d
sessions_per_operator = %d
`, perProject, perOperator))
	return w
}

func (n *node) resume(user, session string) (*apiv1.ResumeSessionResponse, error) {
	return n.Sessions.ResumeSession(as(n.w.t, user), &apiv1.ResumeSessionRequest{SessionId: session})
}

// A message without a free slot waits: its session is queued, its run pending, and no model call is made until the
// operator resumes it with a free slot (A-MSG-POST-05, A-MSG-POST-06, A-MSG-POST-09, A-QUEUE-RES-01 to
// A-QUEUE-RES-05, A-RUN-STATE-01).
func TestQueue(t *testing.T) {
	t.Parallel()
	w := crowded(t, 1, 9)
	n := w.start("a")
	busy, waits := n.session("ada"), n.session("ada")
	w.harness.expect(func(p *play) { p.hang(); p.crash() })
	first := n.post("ada", busy, "one")
	w.harness.next()
	posted := n.post("ada", waits, "two")
	if !posted.GetQueued() || posted.GetReason() != "per_project" || posted.GetRunningCount() != 1 ||
		posted.GetLimit() != 1 ||
		first.GetQueued() {
		t.Fatalf("%v, %v", first, posted)
	}
	if s := n.get("ada", waits); s.GetState() != apiv1.SessionState_SESSION_STATE_QUEUED ||
		s.GetCurrentRun() != posted.GetRunId() {
		t.Errorf("the session is %v", s)
	}
	if got := w.await(waits, "events", `session.state {"state":"queued"}`); len(got) != 1 {
		t.Errorf("frames %q", got)
	}
	content := "three"
	_, err := n.Sessions.PostMessage(as(t, "ada"), &apiv1.PostMessageRequest{SessionId: waits, Content: &content})
	if d := refused(t, err, fault.Conflict); d.Details["current_state"] != "queued" {
		t.Error(d)
	}
	_, err = n.resume("ada", waits)
	details := refused(t, err, fault.Conflict).Details
	if got := fmt.Sprintf(
		"%v %v %v", details["reason"], details["running_count"], details["limit"],
	); got != "per_project 1 1" {
		t.Error(got)
	}
	_, err = n.resume("ada", busy)
	if d := refused(t, err, fault.Conflict); d.Details["current_state"] != "running" {
		t.Error(d.Details)
	}
	_, err = n.resume("eve", waits)
	refused(t, err, fault.NotFound)

	if _, err := n.Sessions.CancelRun(
		as(t, "ada"), &apiv1.CancelRunRequest{SessionId: busy, RunId: first.GetRunId()},
	); err != nil {
		t.Fatal(err)
	}
	resumed, err := n.resume("ada", waits)
	if err != nil || resumed.GetRunId() != posted.GetRunId() ||
		resumed.GetState() != apiv1.SessionState_SESSION_STATE_RUNNING {
		t.Fatal(resumed, err)
	}
	if p := w.harness.next(); len(p.history) != 1 || p.history[0].GetBlocks()[0].GetText().GetText() != "two" {
		t.Errorf("the model is given %v", p.history)
	}
	if run := n.run("ada", waits, posted.GetRunId()); run.GetOutcome() != "completed" || run.GetStartedAt() == 0 {
		t.Error(run)
	}
	events := w.await(waits, "events", `session.state {"state":"idle"}`)
	if count(events, "run.started") != 1 || count(events, "run.ended") != 1 {
		t.Errorf("frames %q", events)
	}
}

// A waiting message is withdrawn by a discard, by a cancellation of its run and by the end of its session. It stays
// in the history, and no model receives it (A-QUEUE-DEL-01 to A-QUEUE-DEL-03, A-MSG-LIST-05).
func TestDiscard(t *testing.T) {
	t.Parallel()
	w := crowded(t, 9, 1)
	n := w.start("a")
	busy := n.session("ada")
	w.harness.expect(func(p *play) { p.hang(); p.crash() })
	n.post("ada", busy, "one")
	w.harness.next()
	var waiting []string
	var posted []*apiv1.PostMessageResponse
	for i := range 3 {
		s := n.session("ada")
		p := n.post("ada", s, fmt.Sprint("waits ", i))
		if p.GetReason() != "per_operator" {
			t.Fatal(p)
		}
		waiting, posted = append(waiting, s), append(posted, p)
	}
	discard := func(session string) (*apiv1.DiscardQueuedResponse, error) {
		return n.Sessions.DiscardQueued(as(t, "ada"), &apiv1.DiscardQueuedRequest{SessionId: session})
	}
	got, err := discard(waiting[0])
	if err != nil || got.GetMessageId() != posted[0].GetId() || got.GetRunId() != posted[0].GetRunId() ||
		got.GetState() != apiv1.SessionState_SESSION_STATE_IDLE {
		t.Fatal(got, err)
	}
	cancel := &apiv1.CancelRunRequest{SessionId: waiting[1], RunId: posted[1].GetRunId()}
	if _, err := n.Sessions.CancelRun(as(t, "ada"), cancel); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Sessions.EndSession(
		as(t, "ada"), &apiv1.EndSessionRequest{Id: waiting[2], Confirm: true},
	); err != nil {
		t.Fatal(err)
	}
	for i, s := range waiting {
		if run := n.run("ada", s, posted[i].GetRunId()); run.GetOutcome() != "cancelled" {
			t.Errorf("run %d: %v", i, run)
		}
		if events := w.await(
			s, "events", "session.state {\"state\":\""+[]string{"idle", "idle", "ended"}[i],
		); count(events, "run.ended") != 1 {
			t.Errorf("frames %q", events)
		}
	}
	if output := w.await(waiting[0], "output", "message.end"); len(output) != 1 {
		t.Errorf("output %q", output)
	}
	if list := n.messages("ada", waiting[0]); len(list) != 1 || !list[0].GetSuperseded() {
		t.Errorf("messages %v", list)
	}
	_, err = discard(waiting[0])
	if d := refused(t, err, fault.Conflict); d.Details["current_state"] != "idle" {
		t.Error(d.Details)
	}
}

// The number of slots is exact even if many messages come to two replicas at once. A queued message survives
// restarts of both, and only an operator starts it.
func TestSlotsAreExact(t *testing.T) {
	t.Parallel()
	const limit, crowd = 3, 12
	w := crowded(t, limit, crowd)
	nodes := []*node{w.start("a"), w.start("b")}
	sessions := make([]string, crowd)
	for i := range sessions {
		sessions[i] = nodes[0].session("ada")
		w.harness.expect(func(p *play) { p.hang(); p.crash() })
	}
	results := make([]*apiv1.PostMessageResponse, crowd)
	errs := make([]error, crowd)
	var posting sync.WaitGroup
	for i, s := range sessions {
		posting.Go(func() {
			content := "go"
			results[i], errs[i] = nodes[i%2].Sessions.PostMessage(
				as(t, "ada"), &apiv1.PostMessageRequest{SessionId: s, Content: &content},
			)
		})
	}
	posting.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	running, waits := 0, ""
	for i, r := range results {
		if r.GetQueued() {
			waits = sessions[i]
		} else {
			running++
		}
	}
	if running != limit {
		t.Fatalf("%d runs are active, want %d", running, limit)
	}
	for _, n := range nodes {
		n.Stop()
	}
	n := w.start("a")
	if s := n.get("ada", waits); s.GetState() != apiv1.SessionState_SESSION_STATE_QUEUED {
		t.Errorf("after a restart the session is %v", s.GetState())
	}
	if _, err := n.resume("ada", waits); err != nil {
		t.Error(err)
	}
}

// Consoles receive notices of sessions and counts after each change, and no others (A-SYS-07, A-SYS-08).
func TestSystemNotices(t *testing.T) {
	t.Parallel()
	w := crowded(t, 1, 9)
	notices := make(chan *sessionmanagerv1.SystemNotice, 256)
	conn, err := bus.Connect(t.Context(), w.bus)
	if err == nil {
		err = conn.Listen(t.Context(), bus.SystemSubject, func(data []byte) {
			var n sessionmanagerv1.SystemNotice
			if proto.Unmarshal(data, &n) == nil {
				notices <- &n
			}
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	n := w.start("a")
	busy, waits := n.session("ada"), n.session("ada")
	w.harness.expect(func(p *play) { p.hang(); p.crash() })
	first := n.post("ada", busy, "one")
	w.harness.next()
	n.post("ada", waits, "two")
	if _, err := n.Sessions.CancelRun(
		as(t, "ada"), &apiv1.CancelRunRequest{SessionId: busy, RunId: first.GetRunId()},
	); err != nil {
		t.Fatal(err)
	}
	counts, states := []string{}, map[string]int{}
	for last := ""; last != `{"total":0`; {
		n := <-notices
		if n.GetOwnerUserId() != "ada" {
			t.Errorf("told to %s: %v", n.GetOwnerUserId(), n)
		}
		payload := string(n.GetPayload())
		switch n.GetType() {
		case "sessions.running_count":
			last = payload[:len(`{"total":0`)]
			counts = append(counts, last)
		case "session.changed":
			for _, s := range []string{"idle", "running", "queued"} {
				if strings.Contains(payload, `"state":"`+s+`"`) {
					states[s]++
				}
			}
		}
	}
	if fmt.Sprint(counts) != `[{"total":1 {"total":0]` {
		t.Errorf("counts %v", counts)
	}
	if states["idle"] != 3 || states["running"] != 1 || states["queued"] != 1 {
		t.Errorf("states %v", states)
	}
	got, err := sessionmanagerv1.NewSystemServiceClient(n.conn).CountRunning(as(t, "ada"), &apiv1.CountRunningRequest{})
	if err != nil || got.GetCount().GetTotal() != 0 || got.GetVersion() == 0 ||
		got.GetCount().GetLimits().GetPerProject() != 1 {
		t.Error(got, err)
	}
}
