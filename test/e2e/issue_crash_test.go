//go:build faults

package e2e_test

import (
	"fmt"
	"syscall"
	"testing"

	"kaged.dev/pkg/crash"
	"kaged.dev/pkg/fault"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// kill -9 around the commit of each change of an issue: before the commit the issue is unchanged, after it the change
// is complete, although no caller got the answer. A repeated request creates one issue, and no number is left out.
func TestKilledAroundAChangeOfAnIssue(t *testing.T) {
	t.Parallel()
	create := func(r *replica, t *testing.T, title string) (int64, error) {
		resp, err := r.CreateIssue(boarder(t), &apiv1.CreateIssueRequest{ProjectId: "p", Title: title, ClientId: title})
		return resp.GetIssue().GetNumber(), err
	}
	changes := map[string]func(*replica, *testing.T) error{
		"create": func(r *replica, t *testing.T) error {
			_, err := create(r, t, "Second")
			return err
		},
		"change": func(r *replica, t *testing.T) error {
			_, err := r.UpdateIssue(boarder(t), &apiv1.UpdateIssueRequest{
				ProjectId: "p", Number: 1, Status: apiv1.IssueStatus_ISSUE_STATUS_RESOLVED, Comment: "Done.",
			})
			return err
		},
		"comment": func(r *replica, t *testing.T) error {
			_, err := r.AddIssueUpdate(boarder(t), &apiv1.AddIssueUpdateRequest{ProjectId: "p", Number: 1, Body: "Hm."})
			return err
		},
		"todos": func(r *replica, t *testing.T) error {
			_, err := r.AddIssueTodos(boarder(t), &apiv1.AddIssueTodosRequest{
				ProjectId: "p", Number: 1, Items: []string{"one", "two"},
			})
			return err
		},
	}
	for name, change := range changes {
		for _, point := range []crash.Point{crash.IssueBeforeStore, crash.IssueStored} {
			t.Run(fmt.Sprint(name, " ", point), func(t *testing.T) {
				t.Parallel()
				r := replicas(t, 1)[0]
				r.start(t, fmt.Sprintf("KAGED_CRASH_AT=%s:2", point))
				if n, err := create(r, t, "First"); err != nil || n != 1 {
					t.Fatalf("filed #%d, %v", n, err)
				}
				if err := change(r, t); fault.CodeOf(err) != fault.Unavailable {
					t.Errorf("the change that died with the service answers %v, want unavailable", err)
				}
				if _, code := r.process.Rest(t); code != 128+int(syscall.SIGKILL) {
					t.Fatalf("the service ended with %d instead of being killed", code)
				}
				r.start(t)
				if got, want := r.state(t), map[bool]string{
					false: "1 issues; open, 0 updates, 0 todos",
					true:  after[name],
				}[point == crash.IssueStored]; got != want {
					t.Errorf("after the crash: %s, want %s", got, want)
				}
				for range 2 {
					if n, err := create(r, t, "Second"); err != nil || n != 2 {
						t.Errorf("filed #%d, %v, want #2", n, err)
					}
				}
			})
		}
	}
}

// after is the state after each change.
var after = map[string]string{
	"create":  "2 issues; open, 0 updates, 0 todos",
	"change":  "1 issues; resolved, 2 updates, 0 todos",
	"comment": "1 issues; open, 1 updates, 0 todos",
	"todos":   "1 issues; open, 0 updates, 2 todos",
}

// state returns the number of issues and the content of the first.
func (r *replica) state(t *testing.T) string {
	t.Helper()
	list, err := r.ListIssues(boarder(t), &apiv1.ListIssuesRequest{ProjectId: "p", Status: "all"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.GetIssue(boarder(t), &apiv1.GetIssueRequest{ProjectId: "p", Number: 1})
	if err != nil {
		t.Fatal(err)
	}
	todos, err := r.ListIssueTodos(boarder(t), &apiv1.ListIssueTodosRequest{ProjectId: "p", Number: 1})
	if err != nil {
		t.Fatal(err)
	}
	status := map[apiv1.IssueStatus]string{
		apiv1.IssueStatus_ISSUE_STATUS_OPEN: "open", apiv1.IssueStatus_ISSUE_STATUS_RESOLVED: "resolved",
	}[got.GetIssue().GetStatus()]
	return fmt.Sprintf("%d issues; %s, %d updates, %d todos", len(list.GetItems()), status,
		len(got.GetIssue().GetUpdates()), len(todos.GetItems()))
}
