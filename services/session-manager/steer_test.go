package sessionmanager

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/fault"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

// steer posts a message for the active run.
func (n *node) steer(user, session, content string) *apiv1.PostMessageResponse {
	n.w.t.Helper()
	resp, err := n.trySteer(user, session, content)
	if err != nil {
		n.w.t.Fatal(err)
	}
	return resp
}

func (n *node) trySteer(user, session, content string) (*apiv1.PostMessageResponse, error) {
	return n.Sessions.PostMessage(as(n.w.t, user), &apiv1.PostMessageRequest{
		SessionId: session, Content: &content, Steer: true,
	})
}

// oneStep plays a step with a tool, and pauses in it until on receives. It returns the answer to the results.
func oneStep(p *play, step int32, working chan<- struct{}, on <-chan struct{}) *harnessv1.StepStored {
	id := fmt.Sprint("c", step)
	p.turn(step, true, call(id, "shell.bash", `{}`))
	working <- struct{}{}
	<-on
	p.tool(step, id, "shell.bash", `{}`, "ok")
	return p.done(step)
}

// occurs returns the number of occurrences of a text in a list.
func occurs(list []string, text string) (n int) {
	for _, t := range list {
		if t == text {
			n++
		}
	}
	return n
}

// said returns a conversation as roles and texts.
func said(history []*harnessv1.Message) (list []string) {
	for _, m := range history {
		for _, b := range m.GetBlocks() {
			role := strings.ToLower(strings.TrimPrefix(m.GetRole().String(), "ROLE_"))
			switch {
			case b.GetText() != nil:
				list = append(list, role+": "+b.GetText().GetText())
			case b.GetToolCall() != nil:
				list = append(list, role+" calls "+b.GetToolCall().GetId())
			case b.GetToolResult() != nil:
				list = append(list, role+" answers "+b.GetToolResult().GetToolCallId())
			}
		}
	}
	return list
}

// steeredAs waits until the frames of steering messages have the wanted contents, states and steps.
func (w *world) steeredAs(session string, want ...string) {
	w.t.Helper()
	eventually(w.t, "the frames of steering messages", func() error {
		if d := cmp.Diff(want, w.steered(session)); d != "" {
			return errors.New(d)
		}
		return nil
	})
}

// steered returns the contents, states and steps of the frames of steering messages, in order.
func (w *world) steered(session string) (list []string) {
	w.t.Helper()
	for _, f := range w.channel(session, "output") {
		kind, payload, _ := strings.Cut(f, " ")
		if kind != "message.steer" {
			continue
		}
		var of struct {
			State, Content string
			AfterStep      int `json:"after_step"`
		}
		unmarshal(w.t, payload, &of)
		list = append(list, fmt.Sprintf("%s %s %d", of.Content, of.State, of.AfterStep))
	}
	return list
}

// Steering messages wait for the run's next step boundary: the root agent receives them after the results of its
// tools, in order, and so does every later run; frames and messages show them in that place.
func TestSteer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s := n.session("ada")
	working, on := make(chan struct{}), make(chan struct{})
	told := make(chan *harnessv1.StepStored, 2)
	w.harness.expect(func(p *play) {
		p.model()
		told <- oneStep(p, 1, working, on)
		told <- oneStep(p, 2, working, on)
		p.turn(3, false, text("Done."))
		p.complete(3)
	})
	posted := n.post("ada", s, "Write a parser.")
	<-working
	first := n.steer("ada", s, "Use tabs.")
	second := n.steer("ada", s, "And no tests.")
	if !first.GetSteered() || first.GetRunId() != posted.GetRunId() || second.GetId() == first.GetId() {
		t.Errorf("answers %v, %v", first, second)
	}
	on <- struct{}{}
	<-working
	on <- struct{}{}
	n.run("ada", s, posted.GetRunId())
	var got []string
	for _, m := range (<-told).GetSteers() {
		got = append(got, m.GetMessageId()+" "+m.GetText())
	}
	if d := cmp.Diff([]string{first.GetId() + " Use tabs.", second.GetId() + " And no tests."}, got); d != "" {
		t.Error(d)
	}
	if again := (<-told).GetSteers(); len(again) != 0 {
		t.Errorf("delivered again: %v", again)
	}
	w.steeredAs(s, "Use tabs. queued 0", "And no tests. queued 0", "Use tabs. delivered 1", "And no tests. delivered 1")
	list := n.messages("ada", s)
	if len(list) != 4 || list[1].GetAfterStep() != 1 || list[1].GetRunId() != posted.GetRunId() ||
		list[1].GetMetadata() != nil ||
		list[2].GetContent() != "And no tests." {
		t.Errorf("messages = %v", list)
	}
	w.harness.next()
	n.run("ada", s, n.post("ada", s, "Now the tests.").GetRunId())
	conversation := []string{
		"user: Write a parser.", "assistant calls c1", "tool answers c1", "user: Use tabs.", "user: And no tests.",
		"assistant calls c2", "tool answers c2", "assistant: Done.", "user: Now the tests.",
	}
	if d := cmp.Diff(conversation, said(w.harness.next().history)); d != "" {
		t.Error(d)
	}
	if r := n.recorded("ada", s); occurs(r, "message.steered") != 2 {
		t.Errorf("records %v", r)
	}
}

// If a run completes before it receives its steering messages, a run that answers them follows.
func TestSteeredTooLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s := n.session("ada")
	working, on := make(chan struct{}), make(chan struct{})
	w.harness.expect(func(p *play) {
		p.model()
		working <- struct{}{}
		<-on
		p.turn(1, false, text("Done."))
		p.complete(1)
	})
	posted := n.post("ada", s, "Write.")
	<-working
	n.steer("ada", s, "Use tabs.")
	last := n.steer("ada", s, "Be brief.")
	on <- struct{}{}
	w.harness.next()
	next := w.harness.next()
	want := []string{"user: Write.", "assistant: Done.", "user: Use tabs.", "user: Be brief."}
	if d := cmp.Diff(want, said(next.history)); d != "" {
		t.Error(d)
	}
	if run := n.run("ada", s, next.start.GetRunId()); run.GetOutcome() != "completed" ||
		run.GetTriggerMessageId() != last.GetId() {
		t.Errorf("the next run = %v", run)
	}
	if run := n.run("ada", s, posted.GetRunId()); run.GetOutcome() != "completed" {
		t.Errorf("the first run = %v", run)
	}
	events := w.await(s, "events", `session.state {"state":"idle"}`)
	if count(events, "run.started") != 2 || count(events, "run.ended") != 2 {
		t.Errorf("frames %q", events)
	}
	w.steeredAs(s, "Use tabs. queued 0", "Be brief. queued 0", "Use tabs. next 0", "Be brief. next 0")
}

// The steering messages of a run that failed or was cancelled stay in the conversation, and start no run.
func TestSteeredRunCancelled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s := n.session("ada")
	working := make(chan struct{})
	w.harness.expect(func(p *play) {
		p.model()
		working <- struct{}{}
		p.hang()
		p.finish(&harnessv1.RunFinished{
			Outcome: harnessv1.Outcome_OUTCOME_CANCELLED, StopReason: harnessv1.StopReason_STOP_REASON_ABORTED,
			Partial: []*harnessv1.Block{text("I")},
		})
	})
	posted := n.post("ada", s, "Write.")
	<-working
	n.steer("ada", s, "Use tabs.")
	if _, err := n.Sessions.CancelRun(
		as(t, "ada"), &apiv1.CancelRunRequest{SessionId: s, RunId: posted.GetRunId()},
	); err != nil {
		t.Fatal(err)
	}
	w.harness.next()
	if got := n.get("ada", s); got.GetState() != apiv1.SessionState_SESSION_STATE_IDLE {
		t.Errorf("the session is %v", got.GetState())
	}
	n.run("ada", s, n.post("ada", s, "Again.").GetRunId())
	want := []string{"user: Write.", "assistant: I", "user: Use tabs.", "user: Again."}
	if d := cmp.Diff(want, said(w.harness.next().history)); d != "" {
		t.Error(d)
	}
	w.steeredAs(s, "Use tabs. queued 0", "Use tabs. kept 0")
}

// An idle session accepts a steering message like any other, and a queued one adds it to its waiting message. Too
// many, too large ones, and ones with overrides are refused.
func TestSteerBounds(t *testing.T) {
	t.Parallel()
	w := crowded(t, 1, 9)
	n := w.start("a")
	busy, waits := n.session("ada"), n.session("ada")
	w.harness.expect(func(p *play) { p.hang(); p.crash() })
	first := n.steer("ada", busy, "one")
	if first.GetSteered() {
		t.Errorf("%v", first)
	}
	w.harness.next()
	queued := n.steer("ada", waits, "two")
	added := n.steer("ada", waits, "more")
	if !queued.GetQueued() || !added.GetSteered() || added.GetRunId() != queued.GetRunId() {
		t.Errorf("%v, %v", queued, added)
	}
	for i := range 16 {
		n.steer("ada", busy, fmt.Sprint("message ", i))
	}
	_, err := n.trySteer("ada", busy, "too many")
	if d := refused(t, err, fault.Conflict).Details; d["reason"] != "steer_limit" {
		t.Error(d)
	}
	content, model := "x", "fake:two"
	_, err = n.Sessions.PostMessage(as(t, "ada"), &apiv1.PostMessageRequest{
		SessionId: busy, Content: &content, Steer: true, ModelOverride: &model,
	})
	refused(t, err, fault.ValidationFailed)
	_, err = n.trySteer("eve", busy, "x")
	refused(t, err, fault.NotFound)

	if _, err := n.Sessions.CancelRun(
		as(t, "ada"), &apiv1.CancelRunRequest{SessionId: busy, RunId: first.GetRunId()},
	); err != nil {
		t.Fatal(err)
	}
	if _, err := n.resume("ada", waits); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"user: two", "user: more"}, said(w.harness.next().history)); d != "" {
		t.Error(d)
	}
	_, err = n.Sessions.DiscardQueued(as(t, "ada"), &apiv1.DiscardQueuedRequest{SessionId: waits})
	refused(t, err, fault.Conflict)
}

// If another process takes the session over while steering messages wait, each is delivered once.
func TestSteerSurvivesTheHolder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.network(t)
	w.primary(onCrashResume)
	first, p := w.spawn(t, "one")
	s := first.session("ada")
	working := make(chan struct{})
	w.harness.expect(func(p *play) {
		p.model()
		p.turn(1, true, call("c1", "shell.bash", `{}`))
		working <- struct{}{}
		p.hang()
	})
	first.post("ada", s, "Write.")
	<-working
	first.steer("ada", s, "Use tabs.")
	w.harness.next()
	p.kill()

	second := w.start("two")
	next := w.harness.next()
	got := said(next.history)
	want := []string{"user: Write.", "assistant calls c1", "tool answers c1", "user: Use tabs."}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	second.run("ada", s, next.start.GetRunId())
	w.steeredAs(s, "Use tabs. queued 0", "Use tabs. kept 0")
}
