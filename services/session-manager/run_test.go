package sessionmanager

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

// A message is accepted with ids, its frames have the order and form that the API defines, the answer is stored
// with its metadata, and the session is idle again with its totals updated. A-MSG-POST-02, A-WS-OUT-01,
// A-WS-OUT-02, A-WS-OUT-05, A-WS-EV-01, A-WS-EV-05, A-WS-EV-06, H-PERS-01, H-PERS-02, H-STREAM-EV-01,
// H-STREAM-MAP-03.
func TestOneMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s := n.session("ada")
	posted := n.post("ada", s, "Say hello.")
	run := n.run("ada", s, posted.GetRunId())
	if run.GetOutcome() != "completed" || run.GetStopReason() != "stop" || run.GetTokensIn() != 12 ||
		run.GetTokensOut() != 5 ||
		run.GetCostTotal() != 0.75 || len(run.GetSteps()) != 1 || run.GetTriggerMessageId() != posted.GetId() {
		t.Errorf("run = %v", run)
	}
	messages := n.messages("ada", s)
	if len(messages) != 2 || messages[0].GetContent() != "Say hello." || messages[1].GetContent() != "Hello" ||
		messages[1].GetRole() != apiv1.MessageRole_MESSAGE_ROLE_PRIMARY || messages[1].GetMetadata().GetProvider() != "fake" {
		t.Errorf("messages = %v", messages)
	}
	id := messages[1].GetId()
	output := w.await(s, "output", "message.end")
	want := []string{
		`message.start {"message_id":"` + id + `","run_id":"` + run.GetId() +
			`","role":"primary","provider":"fake","model":"one","started_at":1700000000000}`,
		`message.delta {"message_id":"` + id + `","delta":"Hel","kind":"text"}`,
		`message.delta {"message_id":"` + id + `","delta":"lo","kind":"text"}`,
		fmt.Sprintf(`message.end {"message_id":%q,"ended_at":%d,"stop_reason":"stop",`, id, run.GetEndedAt()) +
			`"usage":{"input":10,"output":5,"reasoning":0,"cache_read":2,"cache_write":0},` +
			`"stats":{"ttft":12,"duration":100,"tps":50,"cost":{"input":0,"output":0,"reasoning":0,"cache_read":0,` +
			`"cache_write":0,"total":0.75}}}`,
	}
	if d := cmp.Diff(want, output); d != "" {
		t.Error(d)
	}
	events := w.await(s, "events", `session.state {"state":"idle"}`)
	want = []string{
		`run.started {"run_id":"` + run.GetId() + `","message_id":"` + posted.GetId() + `"}`,
		`session.state {"state":"running"}`,
		`run.ended {"run_id":"` + run.GetId() + `","outcome":"completed","steps":1,"tokens_in":12,"tokens_out":5,` +
			`"cost_usd":0.75}`,
		`session.state {"state":"idle"}`,
	}
	if d := cmp.Diff(want, events); d != "" {
		t.Error(d)
	}
	got := n.get("ada", s)
	if got.GetState() != apiv1.SessionState_SESSION_STATE_IDLE || got.GetMessageCount() != 2 || got.CurrentRun != nil ||
		got.GetTotals().GetTokensIn() != 12 || got.GetTotals().GetCostUsd() != 0.75 {
		t.Errorf("session = %v", got)
	}
}

// A run with tools stores each half of a step before the harness continues, shows each call and result, and becomes
// one message, which the next run receives as turns and results. H-STREAM-EV-03, H-STORE-01, H-STORE-02, H-PERS-03,
// A-MSG-LIST-03, A-WS-OUT-03, A-WS-OUT-04, T-DISP-05, T-T20-02.
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
		part := p.GetType() + ":" + p.GetText() + p.GetId() + p.GetToolCallId() + p.GetOutput()
		if p.DurationMs != nil {
			part += fmt.Sprintf(" %d ms", p.GetDurationMs())
		}
		parts = append(parts, part)
	}
	if d := cmp.Diff([]string{
		"text:I look.", "tool_call:c1", "tool_call:c2", "tool_result:c1one 3 ms", "tool_result:c2two 3 ms", "text:Done.",
	}, parts); d != "" {
		t.Error(d)
	}
	if answer.GetContent() != "I look.\n\nDone." {
		t.Errorf("content = %q", answer.GetContent())
	}
	output := w.await(s, "output", "message.end")
	wantKinds := []string{
		"message.start", "message.tool_call", "message.tool_result", "message.tool_call", "message.tool_result",
		"message.end",
	}
	if d := cmp.Diff(wantKinds, kinds(output)); d != "" {
		t.Error(d)
	}
	if want := `message.tool_call {"message_id":"` + answer.GetId() +
		`","id":"c2","name":"file.read","input":{"path":"b"}}`; output[1] != want {
		t.Errorf("call = %s", output[1])
	}
	want := `message.tool_result {"message_id":"` + answer.GetId() +
		`","tool_call_id":"c2","name":"file.read","input":{"path":"b"},"output":"two","is_error":false,"duration_ms":3}`
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

// Text that is too long for a frame is shortened in the frame, or split into several deltas; the message has the
// full text.
func TestLongFrames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s := n.session("ada")
	long := strings.Repeat("ä\n", 300_000)
	w.harness.expect(func(p *play) {
		p.model()
		p.delta(long)
		p.turn(1, true, text(long), call("c1", "file.write", `{"content":`+string(mustJSON(long))+`}`))
		p.tool(1, "c1", "file.write", `{"content":`+string(mustJSON(long))+`}`, long)
		p.done(1)
		p.complete(1)
	})
	n.run("ada", s, n.post("ada", s, "Write.").GetRunId())
	var joined string
	truncated := 0
	for _, f := range w.await(s, "output", "message.end") {
		if len(f) > 257<<10 {
			t.Errorf("a frame has %d bytes", len(f))
		}
		kind, payload, _ := strings.Cut(f, " ")
		var p struct {
			Delta     string
			Truncated bool
		}
		unmarshal(t, payload, &p)
		joined += p.Delta
		if p.Truncated && (kind == "message.tool_call" || kind == "message.tool_result") {
			truncated++
		}
	}
	if joined != long || truncated != 2 {
		t.Errorf("the deltas join to %d bytes of %d; %d frames say truncated", len(joined), len(long), truncated)
	}
	parts := n.messages("ada", s)[1].GetParts()
	var input struct{ Content string }
	unmarshal(t, string(parts[1].GetInput()), &input)
	if len(parts) != 3 || parts[0].GetText() != long || parts[2].GetOutput() != long || input.Content != long {
		t.Errorf("the message is not whole")
	}
}

// One of many simultaneous messages is accepted, and the others are refused with its id. H-STREAM-ENTRY-03,
// A-MSG-POST-07.
func TestConcurrentPosts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s := n.session("ada")
	w.harness.expect(func(p *play) { p.hang() })
	type answer struct {
		posted *apiv1.PostMessageResponse
		err    error
	}
	answers := make(chan answer, 50)
	content := "Me."
	for range 50 {
		go func() {
			posted, err := n.Sessions.PostMessage(as(t, "ada"), &apiv1.PostMessageRequest{SessionId: s, Content: &content})
			answers <- answer{posted, err}
		}()
	}
	var taken []string
	var conflicts []any
	for range 50 {
		a := <-answers
		if a.err == nil {
			taken = append(taken, a.posted.GetId())
			continue
		}
		conflicts = append(conflicts, refused(t, a.err, fault.Conflict).Details["current_message"])
	}
	if len(taken) != 1 {
		t.Fatalf("%d messages were taken", len(taken))
	}
	for _, c := range conflicts {
		if c != taken[0] {
			t.Errorf("a conflict names %v, not %s", c, taken[0])
		}
	}
	if got := n.messages("ada", s); len(got) != 1 {
		t.Errorf("%d messages are stored", len(got))
	}
}

// Overrides of a message are stored in the session, reach the harness, and redirect the root agent's model calls.
// A-MSG-POST-03, A-MSG-POST-04, A-SESS-PUT-06.
func TestOverrides(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s := n.session("ada")
	content, model := "Hi.", "ghost:m:1"
	steps, tokens := int32(3), int32(77)
	posted, err := n.Sessions.PostMessage(as(t, "ada"), &apiv1.PostMessageRequest{
		SessionId: s, Content: &content, ModelOverride: &model, MaxStepsOverride: &steps, MaxOutputTokensOverride: &tokens,
	})
	if err != nil {
		t.Fatal(err)
	}
	n.run("ada", s, posted.GetRunId())
	n.run("ada", s, n.post("ada", s, "Again.").GetRunId())
	for range 2 {
		start := w.harness.next().start
		target := start.GetRoutes()[contract.RootRoute].GetTargets()[0]
		if start.GetMaxSteps() != 3 || start.GetMaxOutputTokens() != 77 || target.GetProvider() != "ghost" ||
			target.GetModel() != "m:1" ||
			target.GetUnusable().GetCode() != commonv1.ErrorCode_ERROR_CODE_PROVIDER_NOT_CONFIGURED {
			t.Errorf("start = %v", start)
		}
	}
	if got := n.get("ada", s); got.GetModelOverride() != model || got.GetMaxStepsOverride() != 3 ||
		got.GetMaxOutputTokensOverride() != 77 {
		t.Errorf("session = %v", got)
	}
}

// A session keeps the tools that its project had at its creation; later changes affect later sessions (T-RES-03).
func TestToolsAreThoseOfTheBeginning(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.primary("tools: {shell.bash: {enabled: true}}")
	n := w.start("a")
	before := n.session("ada")
	w.primary()
	after := n.session("ada")
	for _, c := range []struct {
		session string
		want    []string
	}{{before, []string{"file.read", "shell.bash"}}, {after, []string{"file.read"}}} {
		n.run("ada", c.session, n.post("ada", c.session, "Hi.").GetRunId())
		if d := cmp.Diff(c.want, w.harness.next().start.GetCompiled().GetRoot().GetTools()); d != "" {
			t.Error(d)
		}
	}
}

// A run uses the prompts and bindings at the time of its message and the project file at the creation of its
// session. Routes that change during a run come with the next answer to the harness. H-PROMPT-HOT-01,
// H-PROV-ALIAS-02.
func TestWhatARunIsGiven(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s := n.session("ada")
	w.harness.expect(func(p *play) {
		p.model()
		p.turn(1, true, call("c1", "file.read", `{}`))
		p.tool(1, "c1", "file.read", `{}`, "x")
		if r := p.done(1).GetRoutes(); len(r) != 0 {
			t.Errorf("unchanged routes came: %v", r)
		}
		w.configure("[models]\nsmart = \"other:two\"\n")
		stored := p.turn(2, true, call("c2", "file.read", `{}`))
		if r := stored.GetRoutes()["smart"].GetTargets(); len(r) != 1 || r[0].GetProvider() != "other" {
			t.Errorf("changed routes = %v", r)
		}
		p.tool(2, "c2", "file.read", `{}`, "x")
		p.done(2)
		p.complete(2)
	})
	n.run("ada", s, n.post("ada", s, "Hi.").GetRunId())
	start := w.harness.next().start
	if start.GetPrompts()["prompt.md"] != "Be kind." || start.GetOperatorId() != "ada" ||
		start.GetProjectRoot() != w.project || start.GetRequestId() == "" {
		t.Errorf("start = %v", start)
	}
	w.write("prompt.md", "Be brief.")
	run := n.run("ada", s, n.post("ada", s, "Hi.").GetRunId())
	if got := w.harness.next().start.GetPrompts()["prompt.md"]; got != "Be brief." ||
		run.GetPromptHashes()["prompt.md"] != sum([]byte("Be brief.")) {
		t.Errorf("prompt = %q, hashes %v", got, run.GetPromptHashes())
	}
	if got := n.recorded("ada", s); !slices.Contains(got, "prompt.reloaded") {
		t.Errorf("recorded %v", got)
	}
	w.configure("")
	content := "Hi."
	_, err := n.Sessions.PostMessage(as(t, "ada"), &apiv1.PostMessageRequest{SessionId: s, Content: &content})
	if f := refused(t, err, fault.ProjectNotReady); f.Details["reason"] != "project_not_ready" {
		t.Errorf("details = %v", f.Details)
	}
	if got := n.messages("ada", s); len(got) != 4 {
		t.Errorf("a refused message was kept: %v", got)
	}
}

// The harness's audit records are stored with the run's operator, project and request, and the hash chain of model
// requests continues in the next run.
func TestRecords(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s := n.session("ada")
	w.harness.expect(func(p *play) {
		p.send(&harnessv1.RunEvent{Event: &harnessv1.RunEvent_Audit{Audit: auditRecords("agent.pre_generation")[0]}})
		p.send(&harnessv1.RunEvent{
			Event: &harnessv1.RunEvent_AuditHead{AuditHead: &harnessv1.AuditHead{Hash: "h1", Items: 3}},
		})
		p.model()
		p.turn(1, true, call("c1", "file.read", `{}`))
		p.tool(1, "c1", "file.read", `{}`, "x")
		p.done(1)
		p.complete(1)
	})
	posted := n.post("ada", s, "Hi.")
	n.run("ada", s, posted.GetRunId())
	n.run("ada", s, n.post("ada", s, "Hi.").GetRunId())
	w.harness.next()
	if head := w.harness.next().start.GetAuditHead(); head.GetHash() != "h1" || head.GetItems() != 3 {
		t.Errorf("head = %v", head)
	}
	resp, err := n.Audit.QueryAudit(as(t, "ada"), &apiv1.QueryAuditRequest{Session: s})
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]int{}
	for _, e := range resp.GetItems() {
		types[e.GetEventType()]++
		if e.GetUserId() != "ada" || e.GetProjectId() != "music" || e.GetRequestId() == "" {
			t.Errorf("entry = %v", e)
		}
	}
	want := map[string]int{
		"session.created": 1, "message.posted": 2, "agent.pre_generation": 1, "tool.called": 1, "run.ended": 2,
	}
	if d := cmp.Diff(want, types); d != "" {
		t.Error(d)
	}
	events := w.await(s, "events", `session.state {"state":"idle"}`)
	if count(events, "run.ended") != 2 {
		t.Errorf("events = %q", events)
	}
}

// A retried model call is announced.
func TestRetry(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s := n.session("ada")
	w.harness.expect(func(p *play) {
		p.send(&harnessv1.RunEvent{Event: &harnessv1.RunEvent_Retry{Retry: &harnessv1.Retry{
			Error: &commonv1.Error{Code: commonv1.ErrorCode_ERROR_CODE_PROVIDER_RATE_LIMITED, Message: "Slow down."}, Attempt: 1,
			DelayMs:  500,
			Provider: "fake", Model: "one",
		}}})
		sayHello(p)
	})
	run := n.run("ada", s, n.post("ada", s, "Hi.").GetRunId())
	events := w.await(s, "events", `session.state {"state":"idle"}`)
	want := `run.retry {"run_id":"` + run.GetId() + `","error":{"code":"provider_rate_limited","message":"Slow ` +
		`down."},"attempt":1,"delay_ms":500,"provider":"fake","model":"one"}`
	if events[2] != want {
		t.Errorf("events = %q", events)
	}
}

// An answer that broke off is retracted on the channel of its text, audited, and not part of the message.
func TestRetract(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s := n.session("ada")
	w.harness.expect(func(p *play) {
		p.model()
		p.delta("Half")
		p.send(&harnessv1.RunEvent{Event: &harnessv1.RunEvent_Retracted{Retracted: &harnessv1.Retracted{
			Step: 1, Reason: "It broke off.",
			Audit: &commonv1.AuditRecord{EventType: "agent.turn_retracted", AgentPath: "primary"},
		}}})
		p.delta("Hello")
		p.turn(1, false, text("Hello"))
		p.complete(1)
	})
	run := n.run("ada", s, n.post("ada", s, "Hi.").GetRunId())
	w.await(s, "events", `session.state {"state":"idle"}`)
	output := w.await(s, "output", "message.end")
	want := `message.retract {"message_id":"` + run.GetMessageId() + `","step":1,"reason":"It broke off."}`
	if !slices.Contains(output, want) {
		t.Errorf("output = %q, want %s", output, want)
	}
	resp, err := n.Audit.QueryAudit(as(t, "ada"), &apiv1.QueryAuditRequest{Session: s})
	if err != nil {
		t.Fatal(err)
	}
	retracted := func(e *apiv1.AuditEntry) bool { return e.GetEventType() == "agent.turn_retracted" }
	if !slices.ContainsFunc(resp.GetItems(), retracted) {
		t.Errorf("the record has %v", resp.GetItems())
	}
}

// A running tool's output is shown as it comes, but not stored.
func TestToolOutput(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s := n.session("ada")
	w.harness.expect(func(p *play) {
		p.model()
		p.turn(1, true, call("c1", "shell.bash", `{}`))
		p.send(&harnessv1.RunEvent{
			Event: &harnessv1.RunEvent_ToolOutput{
				ToolOutput: &harnessv1.ToolCallOutput{ToolCallId: "c1", Stream: "stdout", Text: "line\n"},
			},
		})
		p.tool(1, "c1", "shell.bash", `{}`, "done")
		p.done(1)
		p.complete(1)
	})
	run := n.run("ada", s, n.post("ada", s, "Go.").GetRunId())
	want := `message.tool_output {"message_id":"` + run.GetMessageId() +
		`","tool_call_id":"c1","stream":"stdout","text":"line\n"}`
	if got := w.await(s, "output", "message.end"); got[1] != want {
		t.Errorf("output = %q", got)
	}
}
