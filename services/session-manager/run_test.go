package sessionmanager

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// A message is answered: 202 with ids, frames in the order and form the API says, the message stored with how it came
// about, the session idle again, totals summed. A-MSG-POST-02, A-WS-OUT-01, A-WS-OUT-02, A-WS-OUT-05, A-WS-EV-01, A-WS-EV-05, A-WS-EV-06,
// H-PERS-01, H-PERS-02, H-STREAM-EV-01, H-STREAM-MAP-03.
func TestOneMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s := n.session("ada")
	posted := n.post("ada", s, "Say hello.")
	run := n.run("ada", s, posted.GetRunId())
	if run.GetOutcome() != "completed" || run.GetStopReason() != "stop" || run.GetTokensIn() != 12 || run.GetTokensOut() != 5 ||
		run.GetCostTotal() != 0.75 || len(run.GetSteps()) != 1 || run.GetTriggerMessageId() != posted.GetId() {
		t.Errorf("run = %v", run)
	}
	messages := n.messages("ada", s)
	if len(messages) != 2 || messages[0].GetContent() != "Say hello." || messages[1].GetContent() != "Hello" ||
		messages[1].GetRole() != sessionmanagerv1.MessageRole_MESSAGE_ROLE_PRIMARY || messages[1].GetMetadata().GetProvider() != "fake" {
		t.Errorf("messages = %v", messages)
	}
	id := messages[1].GetId()
	output := w.await(s, "output", "message.end")
	want := []string{
		`message.start {"message_id":"` + id + `","run_id":"` + run.GetId() + `","role":"primary","provider":"fake","model":"one","started_at":1700000000000}`,
		`message.delta {"message_id":"` + id + `","delta":"Hel","kind":"text"}`,
		`message.delta {"message_id":"` + id + `","delta":"lo","kind":"text"}`,
		fmt.Sprintf(`message.end {"message_id":%q,"ended_at":%d,"stop_reason":"stop",`, id, run.GetEndedAt()) +
			`"usage":{"input":10,"output":5,"reasoning":0,"cache_read":2,"cache_write":0},` +
			`"stats":{"ttft":12,"duration":100,"tps":50,"cost":{"input":0,"output":0,"reasoning":0,"cache_read":0,"cache_write":0,"total":0.75}}}`,
	}
	if d := cmp.Diff(want, output); d != "" {
		t.Error(d)
	}
	events := w.await(s, "events", `session.state {"state":"idle"}`)
	want = []string{
		`run.started {"run_id":"` + run.GetId() + `","message_id":"` + posted.GetId() + `"}`,
		`session.state {"state":"running"}`,
		`run.ended {"run_id":"` + run.GetId() + `","outcome":"completed"}`,
		`session.state {"state":"idle"}`,
	}
	if d := cmp.Diff(want, events); d != "" {
		t.Error(d)
	}
	got := n.get("ada", s)
	if got.GetState() != sessionmanagerv1.SessionState_SESSION_STATE_IDLE || got.GetMessageCount() != 2 || got.CurrentRun != nil ||
		got.GetTotals().GetTokensIn() != 12 || got.GetTotals().GetCostUsd() != 0.75 {
		t.Errorf("session = %v", got)
	}
}

// A run with tools stores each half of a step before the harness goes on, shows each call and result, and becomes one
// message; the next run is given it back in turns and results. H-STREAM-EV-03, H-STORE-01, H-STORE-02, H-PERS-03, A-MSG-LIST-03,
// A-WS-OUT-03, A-WS-OUT-04.
func TestTools(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s := n.session("ada")
	w.harness.expect(func(p *play) {
		p.model()
		p.turn(1, true, text("I look."), call("c1", "file.read", `{"path":"a"}`), call("c2", "file.read", `{"path":"b"}`))
		p.tool(1, "c2", "file.read", `{"path":"b"}`, "two")
		p.tool(1, "c1", "file.read", `{"path":"a"}`, "one")
		p.done(1)
		p.turn(2, false, text("Done."))
		p.complete(2)
	})
	run := n.run("ada", s, n.post("ada", s, "Look.").GetRunId())
	w.harness.next()
	if run.GetOutcome() != "completed" || len(run.GetSteps()) != 2 || len(run.GetSteps()[0].GetParts()) != 5 {
		t.Errorf("run = %v", run)
	}
	answer := n.messages("ada", s)[1]
	var parts []string
	for _, p := range answer.GetParts() {
		parts = append(parts, p.GetType()+":"+p.GetText()+p.GetId()+p.GetToolCallId()+p.GetOutput())
	}
	if d := cmp.Diff([]string{"text:I look.", "tool_call:c1", "tool_call:c2", "tool_result:c1one", "tool_result:c2two", "text:Done."}, parts); d != "" {
		t.Error(d)
	}
	if answer.GetContent() != "I look.Done." {
		t.Errorf("content = %q", answer.GetContent())
	}
	output := w.await(s, "output", "message.end")
	wantKinds := []string{"message.start", "message.tool_call", "message.tool_result", "message.tool_call", "message.tool_result", "message.end"}
	if d := cmp.Diff(wantKinds, kinds(output)); d != "" {
		t.Error(d)
	}
	if want := `message.tool_call {"message_id":"` + answer.GetId() + `","id":"c2","name":"file.read","input":{"path":"b"}}`; output[1] != want {
		t.Errorf("call = %s", output[1])
	}
	want := `message.tool_result {"message_id":"` + answer.GetId() + `","tool_call_id":"c2","name":"file.read","input":{"path":"b"},"output":"two","is_error":false,"duration_ms":3}`
	if output[2] != want {
		t.Errorf("result = %s", output[2])
	}
	n.run("ada", s, n.post("ada", s, "Again.").GetRunId())
	var roles []string
	for _, m := range w.harness.next().history {
		roles = append(roles, strings.TrimPrefix(m.GetRole().String(), "ROLE_")+fmt.Sprint(len(m.GetBlocks())))
	}
	if d := cmp.Diff([]string{"USER1", "ASSISTANT3", "TOOL2", "ASSISTANT1", "USER1"}, roles); d != "" {
		t.Error(d)
	}
}

var _ = harnessv1.Outcome_OUTCOME_FAILED
