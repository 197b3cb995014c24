package toolrunner_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/testkit/pgtest"
	issuev1 "kaged.dev/proto/gen/kaged/issue/v1"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
	"kaged.dev/services/issue"
	toolrunner "kaged.dev/services/tool-runner"
)

// withIssues returns a tool runner with a real issue service.
func withIssues(t *testing.T) *client {
	t.Helper()
	owner, app := pgtest.Migrated(t, pgtest.Schema(issue.Module.Schema))
	s, err := issue.New(issue.DefaultConfig(), issue.Deps{
		Log: slog.New(slog.DiscardHandler), DatabaseURL: owner,
		AppURL: app,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var work sync.WaitGroup
	work.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Errorf("issue: %v", err)
		}
	})
	t.Cleanup(func() {
		stop()
		work.Wait()
	})
	for s.Ready(t.Context()) != nil {
		if t.Context().Err() != nil {
			t.Fatal("the issue service did not become ready")
		}
	}
	sandbox := dial(t, func(r grpc.ServiceRegistrar) { sandboxsupervisorv1.RegisterSandboxServiceServer(r, newSandbox()) })
	c, end := startOn(t, toolrunner.DefaultConfig(), toolrunner.Deps{
		Sandbox: sandboxsupervisorv1.NewSandboxServiceClient(sandbox),
		Issues:  issuev1.NewIssueToolServiceClient(dial(t, s.Register)),
	})
	t.Cleanup(end)
	return c
}

// asked runs a call of the root agent of a session that is bound to the issue with the number; 0 means unbound.
func (c *client) asked(number int64, name, input string, adjust ...func(*toolrunnerv1.RunToolRequest)) (map[string]any,
	*toolrunnerv1.ToolResult,
) {
	c.t.Helper()
	req := c.request(name, input)
	req.Context.OperatorId, req.Context.IssueNumber = "ada", number
	for _, change := range adjust {
		change(req)
	}
	_, result, err := c.run(req)
	if err != nil {
		c.t.Fatalf("%s %s: %v", name, input, err)
	}
	var content map[string]any
	if err := json.Unmarshal([]byte(result.GetContent()), &content); err != nil {
		c.t.Fatal(err)
	}
	return content, result
}

// refused runs a call that must fail with a code, and returns the failure.
func (c *client) refused(code fault.Code, number int64, name, input string) *fault.Error {
	c.t.Helper()
	_, result := c.asked(number, name, input)
	f := fault.FromProto(result.GetError())
	if !errors.Is(f, code) {
		c.t.Fatalf("%s %s: got %v, want %s", name, input, f, code)
	}
	return f
}

// recorded returns the payload of a result's only record of a type.
func recorded(t *testing.T, result *toolrunnerv1.ToolResult, event string) map[string]any {
	t.Helper()
	for _, r := range result.GetAudit() {
		if r.GetEventType() == event {
			p := r.GetPayload().AsMap()
			if p["caller"] != "primary" || p["session_id"] != "s1" {
				t.Errorf("%s: %v", event, p)
			}
			return p
		}
	}
	t.Fatalf("no %s in %v", event, result.GetAudit())
	return nil
}

// An agent creates an issue, comments on it and moves it. Each change is recorded (T-ISSUE-CREATE, -GET, -LIST,
// -COMMENT, -TRANS; T-AUD-12, -14, -15; T-SCOPE-01; T-KAGED-04). Times are milliseconds (T-ISSUE-03).
func TestAgentsWorkWithIssues(t *testing.T) {
	t.Parallel()
	c := withIssues(t)
	made, result := c.asked(0, "kaged.issue.create", `{"title":"Login fails","body":"On Mondays."}`)
	created, _ := made["created_at"].(float64)
	if made["number"] != 1.0 || made["status"] != "open" || created < 1e12 || made["id"] == nil {
		t.Errorf("created %v", made)
	}
	p := recorded(t, result, "kaged.issue.created")
	if p["issue_id"] != made["id"] || p["project_id"] != "p1" || p["number"] != 1.0 || p["title"] != "Login fails" {
		t.Errorf("record %v", p)
	}
	c.asked(0, "kaged.issue", `{"action":"create","title":"Logout","body":"Nobody can."}`)
	list, result := c.asked(0, "kaged.issue.list", `{"search":"mondays"}`)
	rows := list["issues"].([]any)
	if len(rows) != 1 || list["total"] != 1.0 || list["limit"] != 25.0 || list["offset"] != 0.0 ||
		rows[0].(map[string]any)["title"] != "Login fails" {
		t.Errorf("listed %v", list)
	}
	if len(result.GetAudit()) != 2 {
		t.Errorf("looking was recorded as %v", result.GetAudit())
	}
	if page, _ := c.asked(0, "kaged.issue", `{"action":"list","limit":1,"offset":1}`); len(page["issues"].([]any)) != 1 ||
		page["total"] != 2.0 {
		t.Errorf("second page %v", page)
	}
	said, result := c.asked(0, "kaged.issue.comment", `{"number":1,"body":"Seen.","visibility":"operator_only"}`)
	if p := recorded(t, result, "kaged.issue.commented"); said["issue_number"] != 1.0 ||
		p["update_id"] != said["update_id"] ||
		p["issue_id"] != made["id"] || p["visibility"] != "operator_only" {
		t.Errorf("comment %v, record %v", said, p)
	}
	moved, result := c.asked(0, "kaged.issue.transition", `{"number":1,"to":"resolved","comment":"Fixed."}`)
	if p := recorded(t, result, "kaged.issue.transitioned"); moved["from"] != "open" || moved["to"] != "resolved" ||
		moved["number"] != 1.0 ||
		p["issue_id"] != made["id"] || p["from_status"] != "open" || p["to_status"] != "resolved" {
		t.Errorf("moved %v, record %v", moved, p)
	}
	got, _ := c.asked(0, "kaged.issue", `{"action":"get","number":1}`)
	updates := got["updates"].([]any)
	if got["body"] != "On Mondays." || got["created_by"] != "agent:primary" || got["resolved_by"] != "agent:primary" ||
		len(updates) != 3 ||
		updates[0].(map[string]any)["author"] != "agent:primary" {
		t.Errorf("got %v", got)
	}
	change := updates[1].(map[string]any)
	if m, _ := change["metadata"].(map[string]any); change["kind"] != "status_change" || m["old_status"] != "open" ||
		m["new_status"] != "resolved" {
		t.Errorf("change %v", change)
	}
}

// A repeated call creates one issue, even after a restart of the tool runner.
func TestACallFilesOneIssue(t *testing.T) {
	t.Parallel()
	c := withIssues(t)
	same := func(r *toolrunnerv1.RunToolRequest) { r.CallId = "c1" }
	input := `{"title":"Once","body":"x"}`
	c.asked(0, "kaged.issue.create", input, same)
	if _, err := c.EndSession(t.Context(),
		&toolrunnerv1.EndSessionRequest{SessionId: "s1"}); err != nil { // removes the record of the call
		t.Fatal(err)
	}
	c.asked(0, "kaged.issue.create", input, same)
	if list, _ := c.asked(0, "kaged.issue.list", `{}`); list["total"] != 1.0 {
		t.Errorf("filed %v", list["total"])
	}
}

// An action that is not open to agents is refused with a sentence that names the valid actions (T-ISSUE-01,
// T-ISSUE-UPDATE-01, -TRANS-02, -03, -07; T-FM-14, -15).
func TestIssuesRefuse(t *testing.T) {
	t.Parallel()
	c := withIssues(t)
	c.asked(0, "kaged.issue.create", `{"title":"x","body":"y"}`)
	for _, r := range []struct {
		code        fault.Code
		name, input string
		says        string
	}{
		{fault.InvalidParams, "kaged.issue", `{"action":"update","number":1,"title":"z"}`, "action"},
		{fault.ToolNotFound, "kaged.issue.update", `{"number":1,"title":"z"}`, "kaged.issue.update"},
		{fault.InvalidParams, "kaged.issue", `{"action":"create","title":"z"}`, "body"},
		{fault.InvalidParams, "kaged.issue.create", `{"title":"` + strings.Repeat("x", 201) + `","body":"y"}`, "200"},
		{fault.InvalidParams, "kaged.issue.create", `{"title":"z","body":"` + strings.Repeat("x", 16<<10+1) + `"}`, "16384"},
		{fault.InvalidParams, "kaged.issue.list", `{"limit":101}`, "limit"},
		{fault.InvalidParams, "kaged.issue", `{"action":"get"}`, "number"},
		{fault.IssueNotFound, "kaged.issue.get", `{"number":99999}`, "99999"},
		{fault.IssueNotFound, "kaged.issue.comment", `{"number":99999,"body":"x"}`, "99999"},
		{fault.InvalidParams, "kaged.issue.comment", `{"number":1,"body":""}`, "body"},
		{fault.InvalidParams, "kaged.issue.transition", `{"number":1,"to":"open"}`, "to"},
		{
			fault.InvalidParams, "kaged.issue.transition", `{"number":1,"to":"rejected"}`,
			"Rejection requires an explanatory comment.",
		},
		{fault.InvalidTransition, "kaged.issue.transition", `{"number":1,"to":"reopened"}`, "reopened"},
	} {
		f := c.refused(r.code, 0, r.name, r.input)
		if text, _ := json.Marshal(map[string]any{"m": f.Msg, "d": f.Details}); !strings.Contains(string(text), r.says) {
			t.Errorf("%s %s: %s", r.name, r.input, text)
		}
	}
	f := c.refused(fault.InvalidTransition, 0, "kaged.issue.transition", `{"number":1,"to":"reopened"}`)
	if legal, _ := f.Details["legal"].([]any); len(legal) != 5 {
		t.Errorf("legal %v", f.Details)
	}
}

// Only the root agent has these tools, under every name (T-SCOPE-02, T-KAGED-01 to -03, T-AVAIL-11, -12, T-FM-13;
// T-TODO-BUBBLE-01).
func TestIssuesAreTheRootAgents(t *testing.T) {
	t.Parallel()
	c := withIssues(t)
	for _, name := range []string{"kaged.issue.list", "kaged.todo.view"} {
		req := c.request(name, `{}`)
		req.Context.OperatorId, req.Context.IssueNumber, req.Context.Caller = "ada", 1, "primary.subagents.x"
		_, result, err := c.run(req)
		if err != nil || !errors.Is(fault.FromProto(result.GetError()), fault.PrincipalScopeViolation) {
			t.Errorf("%s: %v %v", name, result, err)
		}
	}
	list, err := c.ListTools(t.Context(), &toolrunnerv1.ListToolsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.GetTools() {
		ours := strings.HasPrefix(tool.GetName(), "kaged.") && tool.GetName() != "kaged.note" // any agent may take notes
		if ours && (!tool.GetRootOnly() || !tool.GetDefaultRoot() ||
			len(tool.GetRequires()) > 0 || len(tool.GetReadWhen()) != 1) {
			t.Errorf("%s: %v", tool.GetName(), tool)
		}
	}
}

// Each tool has its actions as parameters (T-REG-16, -17). An agent with some of the actions can call only those, by
// the tool's name and by the aliases that set an action.
func TestActionsAreGivenOneByOne(t *testing.T) {
	t.Parallel()
	c := withIssues(t)
	narrow := func(r *toolrunnerv1.RunToolRequest) { r.Context.Tools = []string{"kaged.issue.list"} }
	for _, call := range []struct {
		name, input string
		ok          bool
	}{
		{"kaged.issue.list", `{}`, true},
		{"kaged.issue", `{"action":"list"}`, true},
		{"kaged.issue.create", `{"title":"x","body":"y"}`, false},
		{"kaged.issue", `{"action":"create","title":"x","body":"y"}`, false},
		{"kaged.todo.view", `{}`, false},
	} {
		_, result := c.asked(0, call.name, call.input, narrow)
		if f := fault.FromProto(result.GetError()); (f == nil) != call.ok || f != nil && !errors.Is(f, fault.ToolNotFound) {
			t.Errorf("%s %s: %v", call.name, call.input, f)
		}
	}
}

// An agent works through the todos of the bound issue by their texts. Each change is recorded (T-TODO-01 to -22, -24;
// T-AUD-16 to -21). T-TODO-23 (session_not_found) has no test: a call carries the issue of its session, and no session
// is looked up.
func TestAgentsWorkThroughTodos(t *testing.T) {
	t.Parallel()
	c := withIssues(t)
	made, _ := c.asked(0, "kaged.issue.create", `{"title":"x","body":"y"}`)
	list, result := c.asked(1, "kaged.todo.set", `{"items":["Write tests","Check tokens"],"phase":"discovery"}`)
	if p := recorded(t, result, "kaged.todo.set"); p["issue_id"] != made["id"] || p["count"] != 2.0 ||
		p["kind"] != "step" {
		t.Errorf("record %v", p)
	}
	first := list["todos"].([]any)[0].(map[string]any)
	if first["content"] != "Write tests" || first["status"] != "pending" || first["phase"] != "discovery" ||
		first["position"] != 0.0 {
		t.Errorf("todo %v", first)
	}
	_, result = c.asked(1, "kaged.todo.add",
		`{"items":["Logs are kept"],"kind":"criterion","origin_agent":"primary.subagents.coder"}`)
	if p := recorded(t, result, "kaged.todo.added"); p["count"] != 1.0 || p["kind"] != "criterion" {
		t.Errorf("record %v", p)
	}
	_, result = c.asked(1, "kaged.todo.start", `{"content":"  WRITE tests "}`)
	if p := recorded(t, result, "kaged.todo.started"); p["todo_id"] != first["id"] || p["content"] != "Write tests" {
		t.Errorf("record %v", p)
	}
	list, result = c.asked(1, "kaged.todo", `{"action":"note","content":"tests","text":"one is red"}`)
	recorded(t, result, "kaged.todo.noted")
	if want := "- [>] Write tests\n  → one is red\n- [ ] Check tokens\n- [ ] Logs are kept (criterion)"; list["markdown"] != want {
		t.Errorf("checklist\n%v", list["markdown"])
	}
	_, result = c.asked(1, "kaged.todo.done", `{"content":"Write tests"}`)
	if p := recorded(t, result, "kaged.todo.completed"); p["kind"] != "step" || p["content"] != "Write tests" {
		t.Errorf("record %v", p)
	}
	list, result = c.asked(1, "kaged.todo.drop", `{"content":"tokens"}`)
	recorded(t, result, "kaged.todo.dropped")
	rows := list["todos"].([]any)
	if view, _ := c.asked(1, "kaged.todo.view", `{}`); len(rows) != 2 || view["markdown"] != list["markdown"] {
		t.Errorf("after all %v, viewed %v", list, view)
	}
	if last := rows[1].(map[string]any); last["origin_agent"] != "primary.subagents.coder" {
		t.Errorf("criterion %v", last)
	}
}

// A missing todo, a todo named by an id, and a todo of the operator are refused with a suggestion (T-TODO-16, -18, -19,
// -25, -26; T-FM-16, -17, -18, -28).
func TestTodosRefuse(t *testing.T) {
	t.Parallel()
	c := withIssues(t)
	c.asked(0, "kaged.issue.create", `{"title":"x","body":"y"}`)
	if f := c.refused(fault.NoBoundIssue, 0, "kaged.todo.view", `{}`); !strings.Contains(f.Msg, "Ask the operator") {
		t.Errorf("%v", f)
	}
	if f := c.refused(fault.TodoNotFound, 1, "kaged.todo.start", `{"content":"zzz"}`); !strings.Contains(f.Msg, "zzz") ||
		!strings.Contains(f.Msg, "empty") {
		t.Errorf("%v", f)
	}
	c.asked(1, "kaged.todo.add", `{"items":["Logs are kept"],"kind":"criterion"}`)
	if f := c.refused(fault.InvalidTransition, 1, "kaged.todo.drop",
		`{"content":"logs"}`); f.Msg != "Only the operator can drop acceptance criteria." {
		t.Errorf("%v", f)
	}
	c.refused(fault.ContentAddressingHint, 1, "kaged.todo.start", `{"content":"task-1"}`)
	c.refused(fault.InvalidParams, 1, "kaged.todo.note", `{"content":"logs","text":"`+strings.Repeat("x", 2001)+`"}`)
	for _, input := range []string{
		`{"action":"set"}`, `{"action":"done"}`, `{"action":"note","content":"logs"}`,
		`{"action":"erase"}`,
	} {
		c.refused(fault.InvalidParams, 1, "kaged.todo", input)
	}
	c.refused(fault.IssueNotFound, 7, "kaged.todo.view", `{}`)
}

// Without an issue service the tools fail with that reason, and the catalogue has the reason too.
func TestIssuesNeedTheDaemon(t *testing.T) {
	t.Parallel()
	c, stop := startOn(t, toolrunner.DefaultConfig(), toolrunner.Deps{})
	defer stop()
	f := c.refused(fault.Unavailable, 1, "kaged.todo.view", `{}`)
	if !strings.Contains(f.Msg, "kaged up") {
		t.Errorf("%v", f)
	}
	list, err := c.ListTools(t.Context(),
		&toolrunnerv1.ListToolsRequest{Context: &toolrunnerv1.ToolContext{Caller: "primary", ProjectRoot: c.root}})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list.GetTools(), func(tool *toolrunnerv1.Tool) bool { return tool.GetName() == "kaged.issue" })
	if i < 0 || list.GetTools()[i].GetAvailability().GetAvailable() {
		t.Errorf("%v", list.GetTools()[i])
	}
}
