package issue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/testkit/pgtest"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	issuev1 "kaged.dev/proto/gen/kaged/issue/v1"
	"kaged.dev/services/issue"
)

// An agent works through its checklist: each action returns the whole list. An unknown issue and an unknown action are
// refused with the errors of tools. T-TODO-03, -04, -06, -08, -09, -13, -14, -17, -18; T-TODO-BUBBLE-04.
func TestWorkingThroughTodos(t *testing.T) {
	t.Parallel()
	owner, app := pgtest.Migrated(t, pgtest.Schema(issue.Module.Schema))
	public, tools := startBoth(t, owner, app)
	agent, ada := as(t, "ada", "primary"), as(t, "ada", "")
	file(t, public, ada, "p", "Auth", "")
	work := func(req *issuev1.WorkTodosRequest) (*issuev1.WorkTodosResponse, error) {
		req.ProjectId, req.Number = "p", 1
		return tools.WorkTodos(agent, req)
	}
	for _, step := range []struct {
		req  *issuev1.WorkTodosRequest
		want string
	}{
		{&issuev1.WorkTodosRequest{Action: "view"}, ""},
		{&issuev1.WorkTodosRequest{
			Action: "add", Items: []string{"All pass"}, Kind: "criterion", Phase: "end",
			OriginAgent: "primary.subagents.coder",
		}, "- [ ] All pass (criterion)"},
		{
			&issuev1.WorkTodosRequest{Action: "set", Items: []string{"Write code", "Write tests"}},
			"- [ ] All pass (criterion)\n- [ ] Write code\n- [ ] Write tests",
		},
		{
			&issuev1.WorkTodosRequest{Action: "start", Content: "write CODE"},
			"- [ ] All pass (criterion)\n- [>] Write code\n- [ ] Write tests",
		},
		{
			&issuev1.WorkTodosRequest{Action: "start", Content: "tests"},
			"- [ ] All pass (criterion)\n- [ ] Write code\n- [>] Write tests",
		},
		{
			&issuev1.WorkTodosRequest{Action: "note", Content: "tests", Text: "use rapid"},
			"- [ ] All pass (criterion)\n- [ ] Write code\n- [>] Write tests\n  → use rapid",
		},
		{
			&issuev1.WorkTodosRequest{Action: "done", Content: "tests"},
			"- [ ] All pass (criterion)\n- [ ] Write code\n- [x] Write tests",
		},
		{&issuev1.WorkTodosRequest{Action: "drop", Content: "code"}, "- [ ] All pass (criterion)\n- [x] Write tests"},
		{&issuev1.WorkTodosRequest{Action: "done", Content: "pass"}, "- [x] All pass (criterion)\n- [x] Write tests"},
	} {
		resp, err := work(step.req)
		if err != nil || resp.GetMarkdown() != step.want {
			t.Fatalf("%v: got %v\n%s\nwant\n%s", step.req, err, resp.GetMarkdown(), step.want)
		}
	}
	for name, tt := range map[string]struct {
		req  *issuev1.WorkTodosRequest
		want fault.Code
	}{
		"drop a criterion": {&issuev1.WorkTodosRequest{Action: "drop", Content: "All pass"}, fault.InvalidTransition},
		"no items":         {&issuev1.WorkTodosRequest{Action: "add"}, fault.InvalidParams},
		"no action":        {&issuev1.WorkTodosRequest{}, fault.InvalidParams},
		"start what ended": {&issuev1.WorkTodosRequest{Action: "start", Content: "Write tests"}, fault.InvalidTransition},
	} {
		if _, err := work(tt.req); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", name, err, tt.want)
		}
	}
	if _, err := tools.WorkTodos(agent, &issuev1.WorkTodosRequest{
		ProjectId: "p", Number: 99,
		Action: "view",
	}); !errors.Is(err, fault.IssueNotFound) {
		t.Errorf("no issue: got %v", err)
	}
	todos, err := public.ListIssueTodos(ada, &apiv1.ListIssueTodosRequest{ProjectId: "p", Number: 1})
	if err != nil || len(todos.GetItems()) != 3 || todos.GetItems()[0].GetOriginAgent() != "primary.subagents.coder" ||
		todos.GetItems()[0].CompletedAt == nil {
		t.Fatal(todos, err)
	}
	criterion := todos.GetItems()[0].GetId()
	verified, err := public.UpdateIssueTodo(ada, &apiv1.UpdateIssueTodoRequest{
		ProjectId: "p", Number: 1, Id: criterion,
		Verified: ptr(true),
	})
	if err != nil || verified.GetTodo().GetVerifiedBy() != "ada" {
		t.Error(verified, err)
	}
	if _, err := public.UpdateIssueTodo(agent, &apiv1.UpdateIssueTodoRequest{
		ProjectId: "p", Number: 1, Id: criterion,
		Verified: ptr(true),
	}); !errors.Is(err, fault.Forbidden) {
		t.Errorf("an agent verifies: got %v", err)
	}
	if got, err := public.GetIssue(ada, &apiv1.GetIssueRequest{ProjectId: "p", Number: 1}); err != nil ||
		got.GetIssue().GetStatus() != apiv1.IssueStatus_ISSUE_STATUS_OPEN {
		t.Errorf("a claimed criterion ends no issue: got %v, %v", got, err)
	}
}

// If two replicas start todos at the same time, exactly one todo is in progress. T-TODO-12.
func TestStartingAtOnce(t *testing.T) {
	t.Parallel()
	owner, app := pgtest.Migrated(t, pgtest.Schema(issue.Module.Schema))
	public, first := startBoth(t, owner, app)
	_, second := startBoth(t, owner, app)
	agent := as(t, "ada", "primary")
	file(t, public, agent, "p", "Title", "")
	var items []string
	for i := range 10 {
		items = append(items, fmt.Sprintf("todo %c", 'a'+i))
	}
	if _, err := first.WorkTodos(agent, &issuev1.WorkTodosRequest{
		ProjectId: "p", Number: 1, Action: "add",
		Items: items,
	}); err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	for i, content := range items {
		work.Go(func() {
			tools := []issuev1.IssueToolServiceClient{first, second}[i%2]
			if _, err := tools.WorkTodos(agent, &issuev1.WorkTodosRequest{
				ProjectId: "p", Number: 1, Action: "start",
				Content: content,
			}); err != nil {
				t.Error(err)
			}
		})
	}
	work.Wait()
	resp, err := second.WorkTodos(agent, &issuev1.WorkTodosRequest{ProjectId: "p", Number: 1, Action: "view"})
	working := 0
	for _, todo := range resp.GetTodos() {
		if todo.GetStatus() == "in_progress" {
			working++
		}
	}
	if err != nil || working != 1 {
		t.Errorf("got %d todos at work, %v, want 1", working, err)
	}
}

// The tool's actions return their results, and errors are those of tools. T-ISSUE-LIST-01, -02; T-ISSUE-GET-01, -05;
// T-ISSUE-TRANS-01, -04 to -08; T-FM-14, T-FM-15.
func TestUsingIssues(t *testing.T) {
	t.Parallel()
	owner, app := pgtest.Migrated(t, pgtest.Schema(issue.Module.Schema))
	_, tools := startBoth(t, owner, app)
	agent := as(t, "ada", "primary")
	use := func(req *issuev1.UseIssuesRequest) (*issuev1.UseIssuesResponse, error) {
		req.ProjectId = "p"
		return tools.UseIssues(agent, req)
	}
	for i := range 3 {
		if resp, err := use(&issuev1.UseIssuesRequest{Action: "create", Title: fmt.Sprint("Title ", i)}); err != nil ||
			resp.GetIssue().GetNumber() != int64(i+1) {
			t.Fatal(resp, err)
		}
	}
	if resp, err := use(&issuev1.UseIssuesRequest{Action: "list", Limit: 2, Offset: 2}); err != nil ||
		resp.GetTotal() != 3 || len(resp.GetIssues()) != 1 {
		t.Error(resp, err)
	}
	if resp, err := use(&issuev1.UseIssuesRequest{
		Action: "transition", Number: 2, To: "resolved",
		Comment: "done",
	}); err != nil ||
		resp.GetFrom() != "open" || resp.GetIssue().GetResolvedBy() != "agent:primary" {
		t.Error(resp, err)
	}
	if resp, err := use(&issuev1.UseIssuesRequest{Action: "get", Number: 2}); err != nil || len(resp.GetUpdates()) != 2 ||
		string(resp.GetUpdates()[0].GetMetadata()) != `{"new_status":"resolved","old_status":"open"}` {
		t.Error(resp, err)
	}
	_, err := use(&issuev1.UseIssuesRequest{Action: "transition", Number: 2, To: "in_progress"})
	if legal, _ := fault.From(err).Details["legal"].([]any); !errors.Is(err, fault.InvalidTransition) ||
		len(legal) != 1 || legal[0] != "reopened" {
		t.Errorf("resolved to in_progress: got %v with %v", err, fault.From(err).Details)
	}
	for name, tt := range map[string]struct {
		req  *issuev1.UseIssuesRequest
		want fault.Code
	}{
		"update":     {&issuev1.UseIssuesRequest{Action: "update", Number: 1}, fault.InvalidParams},
		"no issue":   {&issuev1.UseIssuesRequest{Action: "get", Number: 99999}, fault.IssueNotFound},
		"no comment": {&issuev1.UseIssuesRequest{Action: "transition", Number: 1, To: "rejected"}, fault.InvalidParams},
		"nowhere": {
			&issuev1.UseIssuesRequest{Action: "transition", Number: 1, To: "elsewhere", Comment: "x"},
			fault.InvalidParams,
		},
		"for nobody": {
			&issuev1.UseIssuesRequest{Action: "comment", Number: 1, Body: "x", Visibility: "nobody"},
			fault.InvalidParams,
		},
	} {
		if _, err := use(tt.req); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", name, err, tt.want)
		}
	}
}

// A reminder has the first five open todos, or others up to the todo in progress, and the number of open todos. It has
// no dropped or completed todos, and none of other operators. T-TODO-STICKY-02, -03.
func TestReminders(t *testing.T) {
	t.Parallel()
	owner, app := pgtest.Migrated(t, pgtest.Schema(issue.Module.Schema))
	c, tools := startBoth(t, owner, app)
	ada, agent := as(t, "ada", ""), as(t, "ada", "primary")
	file(t, c, ada, "music", "First", "")
	remind := func(ctx context.Context, number int64) (list []string, open int32) {
		t.Helper()
		resp, err := tools.RemindTodos(ctx, &issuev1.RemindTodosRequest{ProjectId: "music", Number: number})
		if err != nil {
			t.Fatal(err)
		}
		for _, todo := range resp.GetTodos() {
			list = append(list, todo.GetContent()+" "+todo.GetStatus())
		}
		return list, resp.GetOpen()
	}
	work := func(action, content string, items ...string) {
		t.Helper()
		if _, err := tools.WorkTodos(agent, &issuev1.WorkTodosRequest{
			ProjectId: "music", Number: 1, Action: action, Content: content, Items: items,
		}); err != nil {
			t.Fatal(err)
		}
	}
	check := func(open int32, want ...string) {
		t.Helper()
		if got, n := remind(ada, 1); !slices.Equal(got, want) || n != open {
			t.Errorf("reminded of %d: %q, want %d: %q", n, got, open, want)
		}
	}
	check(0)
	work("add", "", "a", "b", "c", "d", "e", "f", "g", "h")
	check(8, "a pending", "b pending", "c pending", "d pending", "e pending")
	work("start", "c")
	check(8, "a pending", "b pending", "c in_progress", "d pending", "e pending")
	work("start", "g")
	check(8, "d pending", "e pending", "f pending", "g in_progress", "h pending")
	work("done", "g")
	work("drop", "a")
	work("drop", "b")
	check(5, "c pending", "d pending", "e pending", "f pending", "h pending")
	work("done", "c")
	check(4, "d pending", "e pending", "f pending", "h pending")
	for _, other := range []context.Context{as(t, "eve", ""), ada} {
		if got, n := remind(other, 7); n != 0 || len(got) != 0 {
			t.Errorf("an issue that is not there reminds of %q", got)
		}
	}
	if got, _ := remind(as(t, "eve", ""), 1); len(got) != 0 {
		t.Errorf("another operator is reminded of %q", got)
	}
}
