package issue_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/retry"
	"kaged.dev/pkg/testkit/pgtest"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/issue"
)

// While Postgres is unavailable each request is refused as unavailable and no change is made. When it is available
// again the same requests succeed, one issue is created for one client id, and no number is left out.
func TestWithoutPostgres(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	c, _ := startWith(t, issue.Deps{DatabaseURL: server.OwnerURL(), AppURL: server.URL()})
	ada := as(t, "ada", "")
	file(t, c, ada, "p", "First", "")
	server.Kill()
	second := &apiv1.CreateIssueRequest{ProjectId: "p", Title: "Second", ClientId: "c2"}
	for range 3 {
		if _, err := c.CreateIssue(ada, second); !errors.Is(err, fault.Unavailable) {
			t.Errorf("filing without Postgres: got %v, want unavailable", err)
		}
		if _, err := c.ListIssues(ada, &apiv1.ListIssuesRequest{ProjectId: "p"}); !errors.Is(err, fault.Unavailable) {
			t.Errorf("listing without Postgres: got %v, want unavailable", err)
		}
		if _, err := c.AddIssueUpdate(ada, &apiv1.AddIssueUpdateRequest{
			ProjectId: "p", Number: 1, Body: "lost",
		}); !errors.Is(err, fault.Unavailable) {
			t.Errorf("commenting without Postgres: got %v, want unavailable", err)
		}
	}
	server.Start()
	for filed := int64(0); filed != 2; {
		resp, err := c.CreateIssue(ada, second)
		if err != nil && !errors.Is(err, fault.Unavailable) || t.Context().Err() != nil {
			t.Fatal(err)
		}
		if filed = resp.GetIssue().GetNumber(); filed > 2 {
			t.Fatalf("filed #%d, want #2", filed)
		}
	}
	got, err := c.GetIssue(ada, &apiv1.GetIssueRequest{ProjectId: "p", Number: 1})
	if err != nil || len(got.GetIssue().GetUpdates()) != 0 {
		t.Errorf("the refused comments: %v, %v", got.GetIssue().GetUpdates(), err)
	}
	if got := file(t, c, ada, "p", "Third", ""); got.GetNumber() != 3 {
		t.Errorf("filed #%d, want #3", got.GetNumber())
	}
}

// Connections that the service does not use end, although it watches the database; a later request gets another.
func TestUnusedConnectionsEnd(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	c, _ := startWith(t, issue.Deps{
		DatabaseURL: server.OwnerURL(), AppURL: server.URL(), Idle: 100 * time.Millisecond,
	})
	ada := as(t, "ada", "")
	file(t, c, ada, "p", "First", "")
	watcher, err := pgx.Connect(t.Context(), server.OwnerURL())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = watcher.Close(t.Context()) }()
	left := -1
	for range (retry.Pauses{First: time.Millisecond, Last: 100 * time.Millisecond}).Each(t.Context()) {
		err := watcher.QueryRow(t.Context(),
			"select count(*) from pg_stat_activity where usename = 'kaged_app'").Scan(&left)
		if err != nil || left == 0 {
			break
		}
	}
	if left != 0 {
		t.Errorf("%d connections are left", left)
	}
	if got := file(t, c, ada, "p", "Second", ""); got.GetNumber() != 2 {
		t.Errorf("filed #%d, want #2", got.GetNumber())
	}
}
