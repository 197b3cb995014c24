package issue_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/bus"
	"kaged.dev/pkg/testkit/bustest"
	"kaged.dev/pkg/testkit/pgtest"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	issuev1 "kaged.dev/proto/gen/kaged/issue/v1"
	"kaged.dev/services/issue"
)

// listen returns the notices of changed issues that are sent after the call.
func listen(t *testing.T, server *bustest.Private) <-chan *issuev1.IssueChanged {
	t.Helper()
	heard := make(chan *issuev1.IssueChanged, 1000)
	err := server.Connect(t).Listen(t.Context(), "issues.changed", func(data []byte) {
		m := &issuev1.IssueChanged{}
		if err := proto.Unmarshal(data, m); err != nil {
			t.Error(err)
		}
		heard <- m
	})
	if err != nil {
		t.Fatal(err)
	}
	return heard
}

func wantNotice(t *testing.T, heard <-chan *issuev1.IssueChanged, number int64, created bool, why string) {
	t.Helper()
	m := <-heard
	if m.GetOwnerUserId() != "ada" || m.GetProjectId() != "music" || m.GetNumber() != number || m.GetCreated() != created {
		t.Errorf("%s: heard %v, want #%d, created %t", why, m, number, created)
	}
}

// Each committed change of an issue is followed by one notice, whether an operator or an agent made it. Refused changes
// and reads cause no notice. A-WS-EV-08, -10; A-ISSUE-01 to -04.
func TestChangesAreNoticed(t *testing.T) {
	t.Parallel()
	owner, app := pgtest.Migrated(t, pgtest.Schema(issue.Module.Schema))
	server := bustest.Server(t)
	heard := listen(t, server)
	c, tools := startWith(t, issue.Deps{DatabaseURL: owner, AppURL: app, NATS: &bus.Config{InProcess: server}})
	ada, agent := as(t, "ada", ""), as(t, "ada", "primary")

	file(t, c, ada, "music", "First", "")
	wantNotice(t, heard, 1, true, "POST")
	list, err := c.ListIssues(ada, &apiv1.ListIssuesRequest{ProjectId: "music"})
	if err != nil || len(list.GetItems()) != 1 {
		t.Errorf("after the notice the list has %v, %v", list.GetItems(), err)
	}
	for _, change := range []struct {
		why string
		do  func() error
	}{
		{"PATCH", func() error {
			_, err := c.UpdateIssue(ada, &apiv1.UpdateIssueRequest{ProjectId: "music", Number: 1, Title: ptr("Renamed")})
			return err
		}},
		{"a comment", func() error {
			_, err := c.AddIssueUpdate(ada, &apiv1.AddIssueUpdateRequest{ProjectId: "music", Number: 1, Body: "Hm."})
			return err
		}},
		{"todos", func() error {
			_, err := c.AddIssueTodos(ada, &apiv1.AddIssueTodosRequest{ProjectId: "music", Number: 1, Items: []string{"look"}})
			return err
		}},
		{"an agent's todo", func() error {
			_, err := tools.WorkTodos(agent, &issuev1.WorkTodosRequest{
				ProjectId: "music", Number: 1, Action: "done", Content: "look",
			})
			return err
		}},
		{"an agent's transition", func() error {
			_, err := tools.UseIssues(agent, &issuev1.UseIssuesRequest{
				ProjectId: "music", Number: 1, Action: "transition", To: "triaged",
			})
			return err
		}},
	} {
		if err := change.do(); err != nil {
			t.Fatalf("%s: %v", change.why, err)
		}
		wantNotice(t, heard, 1, false, change.why)
	}
	retitle := func(title string) error {
		_, err := c.UpdateIssue(ada, &apiv1.UpdateIssueRequest{ProjectId: "music", Number: 1, Title: &title})
		return err
	}
	if retitle("") == nil || retitle("Renamed") != nil {
		t.Error("an empty title was taken, or the same title refused")
	}
	view := &issuev1.WorkTodosRequest{ProjectId: "music", Number: 1, Action: "view"}
	if _, err := tools.WorkTodos(agent, view); err != nil {
		t.Error(err)
	}
	made, err := tools.UseIssues(agent, &issuev1.UseIssuesRequest{
		ProjectId: "music", Action: "create", Title: "Second", Body: "b",
	})
	if err != nil {
		t.Fatal(err)
	}
	wantNotice(t, heard, made.GetIssue().GetNumber(), true, "an agent's issue")
	if n := len(heard); n > 0 {
		t.Errorf("%d notices more, the first %v", n, <-heard)
	}
}

// A change does not wait for NATS, and its notice follows when NATS is available. A start repeats recent notices,
// because the previous process may have ended before it sent them.
func TestNoticesOutliveOutages(t *testing.T) {
	t.Parallel()
	owner, app := pgtest.Migrated(t, pgtest.Schema(issue.Module.Schema))
	server := bustest.Server(t)
	server.Stop()
	deps := issue.Deps{DatabaseURL: owner, AppURL: app, NATS: &bus.Config{InProcess: server}}
	first, _, stop := run(t, deps)
	file(t, first, as(t, "ada", ""), "music", "First", "")
	server.Start()
	heard := listen(t, server)
	stop()
	startWith(t, deps)
	wantNotice(t, heard, 1, true, "after the outage or the new start")
}
