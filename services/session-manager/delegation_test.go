package sessionmanager

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"kaged.dev/pkg/fault"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

// The invocation ids of the tests.
const (
	writer = "01JWRITER0000000000000000A"
	tester = "01JTESTER0000000000000000B"
	nested = "01JNESTED0000000000000000C"
)

// below returns a play for an agent below the root.
func (p *play) below(invocation string) *play {
	child := *p
	child.invocation = invocation
	return &child
}

func (p *play) agent(parent, callID, name, path, prompt string) *play {
	p.send(&harnessv1.RunEvent{Event: &harnessv1.RunEvent_AgentStarted{AgentStarted: &harnessv1.AgentStarted{
		ParentInvocationId: parent, ToolCallId: callID, Name: name, AgentPath: path, Prompt: prompt, CageStatus: "pending",
		Tools: []string{"file.read"}, StartedAt: 1700000000000,
		Audit: &commonv1.AuditRecord{EventType: "delegation.started", AgentPath: path},
	}}})
	return p
}

func (p *play) ended(outcome harnessv1.Outcome, said, path string, steps int32, failure *commonv1.Error) {
	p.send(&harnessv1.RunEvent{Event: &harnessv1.RunEvent_AgentEnded{AgentEnded: &harnessv1.AgentEnded{
		Outcome: outcome, Error: failure, Text: said, Steps: steps, Usage: &harnessv1.Usage{
			Input:  10 * int64(steps),
			Output: 5 * int64(steps),
		},
		Cost: &harnessv1.Cost{Total: 0.5 * float64(steps)}, FilesChanged: []string{"a.go"}, EndedAt: 1700000000500,
		DurationMs: 500,
		Audit:      &commonv1.AuditRecord{EventType: "delegation.completed", AgentPath: path},
	}}})
}

// started reports a tool about to run.
func (p *play) started(step int32, id, name, input string) {
	p.send(&harnessv1.RunEvent{Event: &harnessv1.RunEvent_ToolCall{ToolCall: &harnessv1.ToolCallStarted{
		Step: step, Call: &harnessv1.ToolCall{Id: id, Name: name, Input: input},
	}}})
}

func (p *play) result(step int32, id, name, output string) {
	p.send(&harnessv1.RunEvent{Event: &harnessv1.RunEvent_ToolResult{ToolResult: &harnessv1.ToolCallFinished{
		Step: step, Result: &harnessv1.ToolResult{ToolCallId: id, Name: name, Content: output}, Input: "{}",
	}}})
}

// team gives the project two agents below the root. One has a read-only cage and an agent below itself.
func (w *world) team() {
	w.primary("subagents:",
		"  writer: {model: smart, system_prompt: ./prompt.md, description: Writes., cage: disabled}",
		"  tester:", "    model: smart", "    system_prompt: ./prompt.md", "    description: Tests.",
		"    cage: {fs: [{path: ./, mode: ro}]}",
		"    subagents:", "      helper: {model: smart, system_prompt: ./prompt.md, description: Helps., cage: {fs: "+
			"[{path: ./, mode: ro}]}}")
}

const (
	writerPath = "primary.subagents.writer"
	testerPath = "primary.subagents.tester"
	helperPath = testerPath + ".subagents.helper"
)

// delegate plays a root agent that has called both agents below it at once.
func (p *play) delegate() (w, t *play) {
	p.model()
	p.turn(1, true, text("I ask both."), call("c1", "agent-writer", `{"prompt":"Write."}`), call("c2", "agent-tester",
		`{"prompt":"Test."}`))
	p.started(1, "c1", "agent-writer", `{"prompt":"Write."}`)
	p.started(1, "c2", "agent-tester", `{"prompt":"Test."}`)
	return p.below(writer).agent("", "c1", "writer", writerPath, "Write."), p.below(tester).agent("", "c2", "tester",
		testerPath, "Test.")
}

// of returns the frames of an invocation.
func of(frames []string, invocation string) (out []string) {
	for _, f := range frames {
		if strings.Contains(f, invocation) {
			out = append(out, f)
		}
	}
	return out
}

// types returns the types of frames.
func types(frames []string) (out []string) {
	for _, f := range frames {
		name, _, _ := strings.Cut(f, " ")
		out = append(out, name)
	}
	return out
}

// sideBySide plays a root with a writer and a tester that work in parallel. It closes live while both are active,
// and continues once seen is closed.
func sideBySide(p *play, live chan<- struct{}, seen <-chan struct{}) {
	wr, te := p.delegate()
	te.send(&harnessv1.RunEvent{Event: &harnessv1.RunEvent_Cage{Cage: &harnessv1.CageChanged{
		AgentPath: testerPath, Status: "caged", Tier: "userns", Summary: "read only",
		Audit: &commonv1.AuditRecord{EventType: "cage.opened", AgentPath: testerPath},
	}}})
	wr.model()
	te.model()
	wr.delta("Writ")
	te.delta("Test")
	wr.turn(1, true, text("Written."), call("w1", "file.write", `{"path":"a.go"}`))
	te.turn(1, true, text("Looking."), call("t1", "file.read", `{"path":"a.go"}`))
	te.tool(1, "t1", "file.read", `{"path":"a.go"}`, "package a")
	te.done(1)
	wr.tool(1, "w1", "file.write", `{"path":"a.go"}`, "written")
	close(live)
	<-seen
	wr.done(1)
	te.turn(2, true, text("All is well."))
	te.ended(harnessv1.Outcome_OUTCOME_COMPLETED, "All is well.", testerPath, 2, nil)
	p.result(1, "c2", "agent-tester", "tested")
	wr.turn(2, true, text("Done."))
	wr.ended(harnessv1.Outcome_OUTCOME_FAILED, "Done.", writerPath, 2,
		&commonv1.Error{Code: commonv1.ErrorCode_ERROR_CODE_INTERRUPTED, Message: "No."})
	p.result(1, "c1", "agent-writer", "written")
	p.done(1)
	p.turn(2, false, text("Thanks."))
	p.complete(2)
}

// shownSideBySide checks the frames of sideBySide.
func shownSideBySide(t *testing.T, w *world, s string) {
	t.Helper()
	output := w.await(s, "output", "message.end")
	shown := []string{"subagent.start", "subagent.output", "subagent.tool_call", "subagent.tool_result", "subagent.end"}
	for _, invocation := range []string{writer, tester} {
		if got := types(of(output, invocation)); !slices.Equal(got, shown) {
			t.Errorf("%s was shown as %v", invocation, got)
		}
	}
	all := types(output)
	if got := all[:5]; !slices.Equal(got, []string{
		"message.start", "message.tool_call", "message.tool_call",
		"subagent.start", "subagent.start",
	}) {
		t.Errorf("output begins with %v", got)
	}
	if i := slices.Index(all, "subagent.end"); all[i+1] != "message.tool_result" {
		t.Errorf("output = %v", all)
	}
	start := of(output, tester)[0]
	for _, part := range []string{
		`"parent_invocation_id":null`, `"tool_call_id":"c2"`, `"name":"tester"`,
		`"agent_path":"` + testerPath, `"cage_status":"pending"`,
	} {
		if !strings.Contains(start, part) {
			t.Errorf("%s is missing in %s", part, start)
		}
	}
	ends := of(output, writer)
	for _, part := range []string{
		`"exit":1`, `"outcome":"failed"`, `"code":"interrupted"`, `"steps":2`,
		`"cost_usd":1`, `"files_changed":["a.go"]`,
	} {
		if end := ends[len(ends)-1]; !strings.Contains(end, part) {
			t.Errorf("%s is missing in %s", part, end)
		}
	}
	if cages := of(w.await(s, "events", `session.state {"state":"idle"}`), tester); len(cages) != 1 ||
		!strings.HasPrefix(cages[0], "run.cage") {
		t.Errorf("frames about the cage of the tester: %v", cages)
	}
}

// The frames of two parallel agents keep each agent's order, their steps are stored and acknowledged separately,
// and the run's totals include all three agents. A-WS-OUT-06, A-WS-OUT-07, A-WS-OUT-08, A-EX-02, A-RUN-GET-01,
// A-WIRE-IDS-04, A-CONTRA-10.
func TestAgentsSideBySide(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.team()
	n := w.start("a")
	s := n.session("ada")
	live := make(chan struct{})
	seen := make(chan struct{})
	w.harness.expect(func(p *play) { sideBySide(p, live, seen) })
	posted := n.post("ada", s, "Build it.")
	<-live
	eventually(t, "the cage is known", func() error {
		for _, a := range n.get("ada", s).GetLiveSubagents() {
			if a.GetName() == "tester" && a.GetCageStatus() == "caged" && a.GetState() == "running" {
				return nil
			}
		}
		return fmt.Errorf("live agents are %v", n.get("ada", s).GetLiveSubagents())
	})
	if got := n.get("ada", s).GetLiveSubagents(); len(got) != 2 || got[0].GetAgentPath() == "" {
		t.Errorf("live agents = %v", got)
	}
	now, err := n.Sessions.ListProcesses(as(t, "ada"), &apiv1.ListProcessesRequest{SessionId: s})
	if err != nil || len(now.GetRuns()) != 1 || len(now.GetRuns()[0].GetLiveSubagents()) != 2 {
		t.Errorf("processes = %v, %v", now, err)
	}
	close(seen)
	run := n.run("ada", s, posted.GetRunId())
	if run.GetOutcome() != "completed" || len(run.GetSteps()) != 2 || run.GetTokensIn() != 24+40 ||
		run.GetTokensOut() != 10+20 || run.GetCostTotal() != 1.5+2 {
		t.Errorf("run = %v", run)
	}
	if got := run.GetSubagentInvocations(); len(got) != 2 || got[0].GetPrompt() == "" || got[0].GetOutput() == "" ||
		len(got[0].GetTools()) != 1 {
		t.Errorf("invocations of the run = %v", got)
	}
	shownSideBySide(t, w, s)
	records := n.recorded("ada", s)
	if times(records, "delegation.started") != 2 || times(records, "delegation.completed") != 2 {
		t.Errorf("records = %v", records)
	}
	messages := n.messages("ada", s)
	if len(messages) != 4 || messages[1].GetRole() != apiv1.MessageRole_MESSAGE_ROLE_SUBAGENT ||
		messages[1].GetSubagentInvocationId() != tester {
		t.Errorf("messages = %v", messages)
	}
	n.run("ada", s, n.post("ada", s, "And?").GetRunId())
	if history := w.harness.next().history; strings.Contains(fmt.Sprint(history), "All is well.") {
		t.Errorf("the root is given the words of its child: %v", history)
	}
}

// Invocations are listed by run and page by page, one is returned with its steps, a tool result by its call, and all
// are refused to other operators.
func TestReadInvocations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.team()
	n := w.start("a")
	s := n.session("ada")
	w.harness.expect(func(p *play) {
		wr, te := p.delegate()
		te.turn(1, true, call("t1", "agent-helper", `{"prompt":"Help."}`))
		he := p.below(nested).agent(tester, "t1", "helper", helperPath, "Help.")
		he.turn(1, true, text("Helped."))
		he.ended(harnessv1.Outcome_OUTCOME_COMPLETED, "Helped.", helperPath, 1, nil)
		te.result(1, "t1", "agent-helper", "helped")
		te.done(1)
		te.ended(harnessv1.Outcome_OUTCOME_COMPLETED, "Tested.", testerPath, 1, nil)
		p.result(1, "c2", "agent-tester", "ok")
		wr.ended(harnessv1.Outcome_OUTCOME_FAILED, "", writerPath, 0,
			&commonv1.Error{Code: commonv1.ErrorCode_ERROR_CODE_INTERRUPTED, Message: "No."})
		p.result(1, "c1", "agent-writer", "no")
		p.done(1)
		p.complete(1)
	})
	posted := n.post("ada", s, "Build it.")
	n.run("ada", s, posted.GetRunId())
	page := func(req *apiv1.ListInvocationsRequest) *apiv1.ListInvocationsResponse {
		t.Helper()
		req.SessionId = s
		resp, err := n.Sessions.ListInvocations(as(t, "ada"), req)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	first := page(&apiv1.ListInvocationsRequest{RunId: posted.GetRunId(), Limit: 2})
	rest := page(&apiv1.ListInvocationsRequest{Limit: 2, Cursor: first.GetNextCursor()})
	if !first.GetHasMore() || rest.GetHasMore() || len(first.GetItems()) != 2 || len(rest.GetItems()) != 1 ||
		first.GetItems()[0].GetPrompt() != "" {
		t.Fatalf("pages are %v and %v", first, rest)
	}
	byID := map[string]*apiv1.SubagentInvocation{}
	for _, i := range append(first.GetItems(), rest.GetItems()...) {
		byID[i.GetInvocationId()] = i
	}
	if i := byID[nested]; i.GetParentInvocationId() != tester || i.GetState() != "completed" || i.GetExit() != 0 ||
		i.Exit == nil || i.GetTokensIn() != 10 {
		t.Errorf("the helper is %v", i)
	}
	if i := byID[writer]; i.ParentInvocationId != nil || i.GetState() != "failed" || i.GetExit() != 1 ||
		i.GetError().GetCode() == 0 {
		t.Errorf("the writer is %v", i)
	}
	got, err := n.Sessions.GetInvocation(as(t, "ada"), &apiv1.GetInvocationRequest{SessionId: s, InvocationId: tester})
	if i := got.GetInvocation(); err != nil || i.GetPrompt() != "Test." || i.GetOutput() != "Tested." ||
		len(i.GetRunSteps()) != 1 ||
		len(i.GetRunSteps()[0].GetParts()) != 2 || i.GetCagePolicy().GetFs()[0].GetMode() != "ro" ||
		i.GetTools()[0] != "file.read" || i.GetFilesChanged()[0] != "a.go" {
		t.Errorf("the tester is %v, %v", i, err)
	}
	whole, err := n.Sessions.GetToolResult(as(t, "ada"),
		&apiv1.GetToolResultRequest{SessionId: s, RunId: posted.GetRunId(), ToolCallId: "t1"})
	if r := whole.GetResult(); err != nil || r.GetOutput() != "helped" || string(r.GetInput()) != `{"prompt":"Help."}` {
		t.Errorf("the result of the tester's call is %v, %v", r, err)
	}
	_, err = n.Sessions.ListInvocations(as(t, "ada"), &apiv1.ListInvocationsRequest{SessionId: s, RunId: "none"})
	refused(t, err, fault.NotFound)
	_, err = n.Sessions.GetInvocation(as(t, "ada"), &apiv1.GetInvocationRequest{SessionId: s, InvocationId: "none"})
	refused(t, err, fault.NotFound)
	for _, err := range []error{
		second(n.Sessions.ListInvocations(as(t, "eve"), &apiv1.ListInvocationsRequest{SessionId: s})),
		second(n.Sessions.GetInvocation(as(t, "eve"), &apiv1.GetInvocationRequest{SessionId: s, InvocationId: tester})),
		second(n.Sessions.CancelInvocation(as(t, "eve"), &apiv1.CancelInvocationRequest{SessionId: s, InvocationId: tester})),
	} {
		refused(t, err, fault.NotFound)
	}
	_, err = n.Sessions.CancelInvocation(as(t, "ada"), &apiv1.CancelInvocationRequest{SessionId: s, InvocationId: tester})
	if f := refused(t, err, fault.Conflict); f.Details["current_state"] != "completed" {
		t.Errorf("details = %v", f.Details)
	}
}

func second[T any](_ T, err error) error { return err }

// One agent is cancelled, and its open approval is closed; the other agent and the run continue.
func TestCancelOneAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.team()
	n := w.start("a")
	s := n.session("ada")
	asked := make(chan struct{})
	w.harness.expect(func(p *play) {
		wr, te := p.delegate()
		te.turn(1, true, call("t1", "shell.bash", `{"command":"make"}`))
		te.send(&harnessv1.RunEvent{Event: &harnessv1.RunEvent_Approval{Approval: &harnessv1.ApprovalRequested{
			ApprovalId: "question", ToolCallId: "t1", Step: 1, Subject: &commonv1.ApprovalSubject{
				Tool:      "shell.bash",
				AgentPath: testerPath, Command: "make",
			},
		}}})
		close(asked)
		id := <-p.cancelledOne
		te.below(id).ended(harnessv1.Outcome_OUTCOME_CANCELLED, "", testerPath, 1, nil)
		p.result(1, "c2", "agent-tester", "cancelled")
		wr.turn(1, true, text("Written."))
		wr.ended(harnessv1.Outcome_OUTCOME_COMPLETED, "Written.", writerPath, 1, nil)
		p.result(1, "c1", "agent-writer", "written")
		p.done(1)
		p.turn(2, false, text("Thanks."))
		p.complete(2)
	})
	posted := n.post("ada", s, "Build it.")
	<-asked
	question := of(w.await(s, "events", "approval.requested"), tester)
	if len(question) != 1 || !strings.Contains(question[0], `"agent_path":"`+testerPath) {
		t.Errorf("the question of the tester is %v", question)
	}
	resp, err := n.Sessions.CancelInvocation(as(t, "ada"), &apiv1.CancelInvocationRequest{
		SessionId:    s,
		InvocationId: tester,
	})
	if i := resp.GetInvocation(); err != nil || i.GetState() != "cancelled" || i.GetExit() != 130 || i.GetEndedAt() == 0 {
		t.Fatalf("the tester is %v, %v", i, err)
	}
	if got := n.run("ada", s, posted.GetRunId()); got.GetOutcome() != "completed" {
		t.Errorf("run = %v", got)
	}
	if a := n.approval("ada", s, "question"); a.GetState() != apiv1.ApprovalState_APPROVAL_STATE_CLOSED ||
		a.GetInvocationId() != tester {
		t.Errorf("the question is %v", a)
	}
	if records := n.recorded("ada", s); times(records, "delegation.cancel_requested") != 1 {
		t.Errorf("records = %v", records)
	}
}

// When the harness dies, the agents below the root end as interrupted, deepest first, in the change that ends the
// run. The root's open calls get these ends as results; agents that had ended keep their results.
func TestHarnessDiesBelow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.team()
	n := w.start("a")
	s := n.session("ada")
	w.harness.expect(dieBelow)
	run := n.run("ada", s, n.post("ada", s, "Build it.").GetRunId())
	w.harness.next()
	cutOff(t, w, n, s, run)
}

// The same holds when session-manager is killed: the next process ends the open invocations once, and the frames
// agree with the rows.
func TestKilledBelow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.team()
	w.network(t)
	first, p := w.spawn(t, "one")
	s := first.session("ada")
	stored := make(chan struct{})
	w.harness.expect(func(p *play) {
		workBelow(p)
		close(stored)
		<-p.stream.Context().Done()
		panic(errGone)
	})
	posted := first.post("ada", s, "Build it.")
	<-stored
	eventually(t, "the end of the writer is stored", func() error {
		got, err := first.Sessions.GetInvocation(as(t, "ada"), &apiv1.GetInvocationRequest{
			SessionId:    s,
			InvocationId: writer,
		})
		if err == nil && got.GetInvocation().GetState() != "completed" {
			err = fmt.Errorf("it is %s", got.GetInvocation().GetState())
		}
		return err
	})
	p.kill()
	second := w.start("one")
	run := second.run("ada", s, posted.GetRunId())
	w.harness.next()
	cutOff(t, w, second, s, run)
	if n := len(w.harness.began); n != 0 {
		t.Errorf("%d runs began by themselves", n)
	}
}

// dieBelow plays a harness that dies after workBelow.
func dieBelow(p *play) {
	workBelow(p)
	p.crash()
}

// workBelow plays one agent that has ended, and another that is active and has called a third.
func workBelow(p *play) {
	wr, te := p.delegate()
	te.turn(1, true, text("Looking."), call("t1", "agent-helper", `{"prompt":"Help."}`))
	he := p.below(nested).agent(tester, "t1", "helper", helperPath, "Help.")
	he.turn(1, true, text("I help."), call("h0", "file.write", `{}`))
	he.wrote(1, "h0", "./b.go")
	he.done(1)
	he.turn(2, true, call("h1", "file.write", `{}`))
	wr.turn(1, true, text("Written."))
	wr.ended(harnessv1.Outcome_OUTCOME_COMPLETED, "Written.", writerPath, 1, nil)
	p.result(1, "c1", "agent-writer", `{"outcome":"completed","text":"Written."}`)
}

// cutOff checks the state after dieBelow.
func cutOff(t *testing.T, w *world, n *node, s string, run *apiv1.Run) {
	t.Helper()
	if run.GetOutcome() != "failed" || run.GetError().GetCode() != commonv1.ErrorCode_ERROR_CODE_INTERRUPTED {
		t.Errorf("run = %v", run)
	}
	// 12 tokens for each turn of the agents that were cut off, 10 that the writer reported.
	if run.GetTokensIn() != 12+12+12+12+10 {
		t.Errorf("the run has %d tokens", run.GetTokensIn())
	}
	states := map[string]string{}
	for _, i := range run.GetSubagentInvocations() {
		states[i.GetInvocationId()] = fmt.Sprint(i.GetState(), i.GetSteps())
	}
	for id, want := range map[string]string{writer: "completed1", tester: "failed1", nested: "failed2"} {
		if states[id] != want {
			t.Errorf("%s is %s, want %s", id, states[id], want)
		}
	}
	var ends []string
	for _, f := range w.await(s, "output", "message.end") {
		if strings.HasPrefix(f, "subagent.end") {
			for _, id := range []string{writer, tester, nested} {
				if strings.Contains(f, id) {
					ends = append(ends, id)
				}
			}
		}
	}
	if !slices.Equal(ends, []string{writer, nested, tester}) {
		t.Errorf("the agents ended in the order %v", ends)
	}
	var answers []string
	messages := n.messages("ada", s)
	for _, part := range messages[len(messages)-1].GetParts() {
		if part.GetType() == "tool_result" {
			answers = append(answers, part.GetOutput())
		}
	}
	var answer struct {
		InvocationID, Outcome, Text string
		Steps                       int
		FilesChanged                []string `json:"files_changed"`
		Error                       struct{ Code string }
	}
	if len(answers) != 2 || !strings.Contains(answers[0], "Written.") || json.Unmarshal([]byte(answers[1]),
		&answer) != nil ||
		answer.Outcome != "failed" || answer.Text != "Looking." || answer.Error.Code != "interrupted" || answer.Steps != 1 {
		t.Errorf("the root's calls are answered with %q", answers)
	}
	// The tester's result includes the files that the helper below it changed.
	if !slices.Equal(answer.FilesChanged, []string{"./b.go"}) {
		t.Errorf("the tester's caller is told of the files %q", answer.FilesChanged)
	}
	resp, err := n.Audit.QueryAudit(as(t, "ada"), &apiv1.QueryAuditRequest{Session: s, EventType: "tool.interrupted"})
	if err != nil || len(resp.GetItems()) != 1 ||
		resp.GetItems()[0].GetPayload().GetFields()["tool_call_id"].GetStringValue() != "h1" ||
		resp.GetItems()[0].GetAgentPath() != helperPath {
		t.Errorf("the records of calls that were cut off: %v, %v", resp.GetItems(), err)
	}
	if got := n.get("ada", s).GetLiveSubagents(); len(got) != 0 {
		t.Errorf("live agents = %v", got)
	}
}

// A run ends if its harness reports an agent that it did not start, or ends an agent before those below it.
func TestUnknownAgents(t *testing.T) {
	t.Parallel()
	for name, lie := range map[string]func(p *play){
		"unknown":        func(p *play) { p.below(nested).delta("x") },
		"unknown parent": func(p *play) { p.below(nested).agent("nobody", "t1", "helper", helperPath, "Help.") },
		"begun twice":    func(p *play) { p.below(writer).agent("", "c9", "writer", writerPath, "Again.") },
		"parent first": func(p *play) {
			p.below(nested).agent(tester, "t1", "helper", helperPath, "Help.")
			p.below(tester).ended(harnessv1.Outcome_OUTCOME_COMPLETED, "", testerPath, 0, nil)
		},
		"out of step": func(p *play) { p.below(writer).turn(2, false, text("x")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.team()
			n := w.start("a")
			s := n.session("ada")
			w.harness.expect(func(p *play) {
				p.delegate()
				lie(p)
				<-p.stream.Context().Done()
			})
			if run := n.run("ada", s, n.post("ada", s,
				"Go.").GetRunId()); run.GetError().GetCode() != commonv1.ErrorCode_ERROR_CODE_INTERNAL {
				t.Errorf("the run is %v", run)
			}
		})
	}
}
