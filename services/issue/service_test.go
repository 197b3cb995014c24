package issue_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/structpb"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/rpc"
	"kaged.dev/pkg/testkit/pgtest"
	"kaged.dev/pkg/testkit/promises"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	issuev1 "kaged.dev/proto/gen/kaged/issue/v1"
	"kaged.dev/services/issue"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		promised.Exit(code, promises.Of("kaged.issue.v1"), unprovoked)
	}))
}

// start runs the service on a database and returns a client of it.
func start(t *testing.T, owner, app string) issuev1.IssueServiceClient {
	t.Helper()
	public, _ := startBoth(t, owner, app)
	return public
}

// startBoth runs the service on a database and returns clients of the API and of the tools.
func startBoth(t *testing.T, owner, app string) (issuev1.IssueServiceClient, issuev1.IssueToolServiceClient) {
	t.Helper()
	return startWith(t, issue.Deps{DatabaseURL: owner, AppURL: app})
}

// startWith runs the service until the test ends.
func startWith(t *testing.T, deps issue.Deps) (issuev1.IssueServiceClient, issuev1.IssueToolServiceClient) {
	t.Helper()
	public, tools, _ := run(t, deps)
	return public, tools
}

// run runs the service until stop is called, at the latest at the end of the test, and returns its clients.
func run(t *testing.T, deps issue.Deps) (
	public issuev1.IssueServiceClient, tools issuev1.IssueToolServiceClient, stop func(),
) {
	t.Helper()
	deps.Log = slog.New(slog.DiscardHandler)
	s, err := issue.New(issue.DefaultConfig(), deps)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(rpc.ServerOptions(deps.Log)...)
	s.Register(server)
	listener := bufconn.Listen(1 << 20)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var work sync.WaitGroup
	work.Go(func() { _ = server.Serve(listener) })
	work.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	dialer := grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return listener.DialContext(ctx)
	})
	conn, err := grpc.NewClient("passthrough:issue", append(rpc.DialOptions(), dialer,
		grpc.WithChainUnaryInterceptor(promised.Interceptor))...)
	if err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		_ = conn.Close()
		server.Stop()
		cancel()
		work.Wait()
	})
	t.Cleanup(stop)
	for s.Ready(t.Context()) != nil {
		if t.Context().Err() != nil {
			t.Fatal("the service did not become ready")
		}
	}
	return issuev1.NewIssueServiceClient(conn), issuev1.NewIssueToolServiceClient(conn), stop
}

func one(t *testing.T) issuev1.IssueServiceClient {
	t.Helper()
	owner, app := pgtest.Migrated(t, pgtest.Schema(issue.Module.Schema))
	return start(t, owner, app)
}

func as(t *testing.T, user, agent string) context.Context {
	return ident.WithCaller(t.Context(), ident.Caller{UserID: user, AgentPath: agent})
}

func file(t *testing.T, c issuev1.IssueServiceClient, ctx context.Context, project, title, body string) *apiv1.Issue {
	t.Helper()
	resp, err := c.CreateIssue(ctx, &apiv1.CreateIssueRequest{ProjectId: project, Title: title, Body: body})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetIssue()
}

func ptr[T any](v T) *T { return &v }

// A new issue is open, has a number from 1 in its project, and is visible only to its operator. T-ISSUE-CREATE-01, -02,
// -03; T-ISSUE-LIST-06.
func TestFiling(t *testing.T) {
	t.Parallel()
	c, ada := one(t), as(t, "ada", "")
	if got := file(t, c, ada, "music", "First", "text"); got.GetNumber() != 1 || got.GetCreatedBy() != "ada" ||
		got.GetVersion() != 1 ||
		got.GetStatus() != apiv1.IssueStatus_ISSUE_STATUS_OPEN || len(got.GetLegalTransitions()) != 5 {
		t.Errorf("got %v", got)
	}
	if got := file(t, c, as(t, "ada", "primary"), "music", "Second", ""); got.GetNumber() != 2 ||
		got.GetCreatedBy() != "agent:primary" {
		t.Errorf("got %v, want #2 by agent:primary", got)
	}
	if got := file(t, c, ada, "noise", "First", ""); got.GetNumber() != 1 {
		t.Errorf("got #%d in another project, want #1", got.GetNumber())
	}
	if got := file(t, c, as(t, "eve", ""), "music", "Hers", ""); got.GetNumber() != 1 {
		t.Errorf("got #%d of another operator, want #1", got.GetNumber())
	}
	if _, err := c.GetIssue(as(t, "eve", ""), &apiv1.GetIssueRequest{ProjectId: "music", Number: 2}); !errors.Is(err,
		fault.NotFound) {
		t.Errorf("another operator's issue: got %v, want not_found", err)
	}
	if _, err := c.ListIssues(t.Context(), &apiv1.ListIssuesRequest{ProjectId: "music"}); !errors.Is(err,
		fault.Unauthenticated) {
		t.Errorf("without an operator: got %v, want unauthenticated", err)
	}
}

// Texts that are too long, have several lines or cannot be stored by Postgres are refused with the field's name. Texts
// of the maximum length are stored completely. T-ISSUE-CREATE-04, -05.
func TestBounds(t *testing.T) {
	t.Parallel()
	c, ada := one(t), as(t, "ada", "")
	for name, tt := range map[string]struct {
		title, body, client string
		field               string
	}{
		"200 characters":   {strings.Repeat("ü", 200), strings.Repeat("x", 16<<10), "", ""},
		"201 characters":   {strings.Repeat("ü", 201), "", "", "title"},
		"no title":         {" ", "", "", "title"},
		"two lines":        {"a\nb", "", "", "title"},
		"16 KiB and one":   {"a", strings.Repeat("x", 16<<10+1), "", "body"},
		"a megabyte":       {"a", strings.Repeat("x", 1<<20), "", "body"},
		"NUL":              {"a", "b\x00", "", "body"},
		"a long client id": {"a", "", strings.Repeat("x", 201), "client_id"},
		"bidi":             {"a \u202e gpj.exe", "b", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			resp, err := c.CreateIssue(ada, &apiv1.CreateIssueRequest{
				ProjectId: "p", Title: tt.title, Body: tt.body,
				ClientId: tt.client,
			})
			if tt.field == "" {
				if err != nil || resp.GetIssue().GetTitle() != tt.title || resp.GetIssue().GetBody() != tt.body {
					t.Errorf("got %v, %v", resp, err)
				}
				return
			}
			fields, _ := fault.From(err).Details["fields"].([]any)
			if !errors.Is(err, fault.ValidationFailed) || len(fields) != 1 || fields[0] != tt.field {
				t.Errorf("got %v with %v, want validation_failed of %s", err, fault.From(err), tt.field)
			}
		})
	}
}

// Repeated requests with the same client id create one issue and take one number, even if they are simultaneous.
// Different content with the same id is a conflict.
func TestClientID(t *testing.T) {
	t.Parallel()
	c, ada := one(t), as(t, "ada", "")
	req := &apiv1.CreateIssueRequest{ProjectId: "p", Title: "One", ClientId: "key"}
	var mu sync.Mutex
	var work sync.WaitGroup
	created := 0
	for range 8 {
		work.Go(func() {
			resp, err := c.CreateIssue(ada, req)
			mu.Lock()
			defer mu.Unlock()
			if err != nil || resp.GetIssue().GetNumber() != 1 {
				t.Errorf("got %v, %v, want #1", resp, err)
			}
			if resp.GetCreated() {
				created++
			}
		})
	}
	work.Wait()
	if created != 1 {
		t.Errorf("got %d filed issues, want 1", created)
	}
	_, err := c.CreateIssue(ada, &apiv1.CreateIssueRequest{ProjectId: "p", Title: "Other", ClientId: "key"})
	if !errors.Is(err, fault.Conflict) || fault.From(err).Details["reason"] != "client_id_reused" {
		t.Errorf("got %v, want a conflict", err)
	}
	if got := file(t, c, ada, "p", "Two", ""); got.GetNumber() != 2 {
		t.Errorf("got #%d, want #2: refused requests take no number", got.GetNumber())
	}
}

// Two replicas number the issues of a project without gaps and duplicates. If two people close an issue at once, one
// succeeds and the other is refused. T-ISSUE-CREATE-03.
func TestTwoReplicas(t *testing.T) {
	t.Parallel()
	owner, app := pgtest.URLs(t)
	replicas := []issuev1.IssueServiceClient{start(t, owner, app), start(t, owner, app)}
	ada := as(t, "ada", "")
	var mu sync.Mutex
	var numbers []int64
	var work sync.WaitGroup
	for i := range 50 {
		work.Go(func() {
			resp, err := replicas[i%2].CreateIssue(ada, &apiv1.CreateIssueRequest{ProjectId: "p", Title: fmt.Sprint("issue ",
				i)})
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			numbers = append(numbers, resp.GetIssue().GetNumber())
		})
	}
	work.Wait()
	slices.Sort(numbers)
	for i, n := range numbers {
		if n != int64(i+1) {
			t.Fatalf("got the numbers %v, want 1 to 50", numbers)
		}
	}
	refused := make([]error, 2)
	for i := range refused {
		work.Go(func() {
			_, refused[i] = replicas[i].UpdateIssue(ada, &apiv1.UpdateIssueRequest{
				ProjectId: "p", Number: 7, Status: apiv1.IssueStatus_ISSUE_STATUS_RESOLVED, Comment: fmt.Sprint("done by ", i),
			})
		})
	}
	work.Wait()
	if (refused[0] == nil) == (refused[1] == nil) {
		t.Errorf("two closed it at once: got %v and %v, want one refused", refused[0], refused[1])
	}
	got, err := replicas[0].GetIssue(ada, &apiv1.GetIssueRequest{ProjectId: "p", Number: 7})
	if err != nil || len(got.GetIssue().GetUpdates()) != 2 || got.GetIssue().GetVersion() != 2 {
		t.Errorf("got %v, %v, want one change with its comment", got, err)
	}
}

// A change names its fields, keeps the first body, and records an update for each field. It is refused if If-Match
// names another version than the present one. T-ISSUE-UPDATE-02 to -05, -07; T-ISSUE-GET-02, -03.
func TestEditing(t *testing.T) {
	t.Parallel()
	c, ada := one(t), as(t, "ada", "")
	file(t, c, ada, "p", "Title", "first")
	update := func(ctx context.Context, req *apiv1.UpdateIssueRequest) (*apiv1.Issue, error) {
		req.ProjectId, req.Number = "p", 1
		resp, err := c.UpdateIssue(ctx, req)
		return resp.GetIssue(), err
	}
	got, err := update(ada, &apiv1.UpdateIssueRequest{
		Title: ptr("New"), Body: ptr("second"),
		Assignment: structpb.NewStringValue("workflow:deploy"),
	})
	if err != nil || !slices.Equal(got.GetUpdatedFields(), []string{"title", "body", "assignment"}) ||
		got.GetOriginalBody() != "first" ||
		got.GetAssignment() != "workflow:deploy" || got.GetVersion() != 2 {
		t.Fatalf("got %v, %v", got, err)
	}
	if got, err := update(ada, &apiv1.UpdateIssueRequest{
		Body:       ptr("third"),
		Assignment: structpb.NewNullValue(),
	}); err != nil ||
		got.GetOriginalBody() != "first" || got.Assignment != nil {
		t.Errorf("got %v, %v", got, err)
	}
	match := metadata.AppendToOutgoingContext(ada, "if-match", `"2"`)
	if _, err := update(match, &apiv1.UpdateIssueRequest{Title: ptr("Late")}); !errors.Is(err, fault.Conflict) ||
		fault.From(err).Details["reason"] != "version_mismatch" || fault.From(err).Details["version"] != float64(3) {
		t.Errorf("an old version: got %v", fault.From(err))
	}
	for name, tt := range map[string]struct {
		ctx  context.Context
		req  *apiv1.UpdateIssueRequest
		want fault.Code
	}{
		"nothing": {ada, &apiv1.UpdateIssueRequest{}, fault.BadRequest},
		"no assignment": {
			ada, &apiv1.UpdateIssueRequest{Assignment: structpb.NewStringValue("me; drop table")},
			fault.ValidationFailed,
		},
		"a number": {
			ada, &apiv1.UpdateIssueRequest{Assignment: structpb.NewNumberValue(1)},
			fault.ValidationFailed,
		},
		"an agent's title": {as(t, "ada", "primary"), &apiv1.UpdateIssueRequest{Title: ptr("x")}, fault.Forbidden},
		"an agent's assignment": {
			as(t, "ada", "primary"), &apiv1.UpdateIssueRequest{Assignment: structpb.NewNullValue()},
			fault.Forbidden,
		},
		"If-Match of words": {
			metadata.AppendToOutgoingContext(ada, "if-match", "abc"),
			&apiv1.UpdateIssueRequest{Title: ptr("x")}, fault.BadRequest,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := update(tt.ctx, tt.req); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
	shown, err := c.GetIssue(ada, &apiv1.GetIssueRequest{ProjectId: "p", Number: 1})
	var kinds []string
	for _, u := range shown.GetIssue().GetUpdates() {
		kinds = append(kinds, strings.TrimPrefix(u.GetKind().String(), "ISSUE_UPDATE_KIND_"))
	}
	if want := "TITLE_EDIT BODY_EDIT ASSIGNMENT_CHANGE BODY_EDIT ASSIGNMENT_CHANGE"; err != nil || strings.Join(kinds,
		" ") != want {
		t.Errorf("got the updates %v, %v, want %s", kinds, err, want)
	}
}

// A search finds words in titles and bodies in any script and case, or parts of titles if no issue has the words, and
// only in the project. The query is never read as SQL or as a pattern. T-ISSUE-LIST-03, -04, -05.
func TestSearching(t *testing.T) {
	t.Parallel()
	c, ada := one(t), as(t, "ada", "")
	file(t, c, ada, "p", "Übersicht lädt langsam", "Die Liste")
	file(t, c, ada, "p", "Login fails", "since the übersicht changed")
	file(t, c, ada, "p", "日本語の検索", "漢字")
	file(t, c, ada, "p", "100% of a_b \\ c", "O'Reilly; drop table issues")
	file(t, c, ada, "q", "Login elsewhere", "übersicht")
	if _, err := c.UpdateIssue(ada, &apiv1.UpdateIssueRequest{
		ProjectId: "p", Number: 1,
		Status: apiv1.IssueStatus_ISSUE_STATUS_RESOLVED, Comment: "done",
	}); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{
		"ÜBERSICHT": "2", "login": "2", "検索": "3", "漢字": "3", "logi": "2", "100%": "4", "%": "4", "_b": "4", "reilly": "4",
		"nothing":       "",
		`"login fails"`: "2", "login -fails": "", "' or 1=1 --": "", "übersicht or 検索": "3 2", "((((": "", `\`: "4",
		"": "4 3 2", "!!": "",
	} {
		t.Run(query, func(t *testing.T) {
			resp, err := c.ListIssues(ada, &apiv1.ListIssuesRequest{ProjectId: "p", Q: query, WithTotal: true})
			var got []string
			for _, i := range resp.GetItems() {
				got = append(got, fmt.Sprint(i.GetNumber()))
			}
			if err != nil || strings.Join(got, " ") != want || resp.GetTotal() != int64(len(got)) {
				t.Errorf("got %v of %d, %v, want %q", got, resp.GetTotal(), err, want)
			}
		})
	}
	for status, want := range map[string]int{
		"all": 4, "resolved": 1, "open,resolved": 4, "": 3, "open,open,open,open,open,open,open": 3,
	} {
		if resp, err := c.ListIssues(ada, &apiv1.ListIssuesRequest{ProjectId: "p", Status: status}); err != nil ||
			len(resp.GetItems()) != want {
			t.Errorf("status %q: got %d, %v, want %d", status, len(resp.GetItems()), err, want)
		}
	}
	for _, req := range []*apiv1.ListIssuesRequest{
		{Status: "open') or 1=1"},
		{Q: strings.Repeat("x", 501)},
		{Q: "a\x00"},
		{Cursor: "x"},
		{Limit: -1},
		{Offset: -1},
	} {
		req.ProjectId = "p"
		if _, err := c.ListIssues(ada, req); !errors.Is(err, fault.ValidationFailed) {
			t.Errorf("%v: got %v, want validation_failed", req, err)
		}
	}
	first, err := c.ListIssues(ada, &apiv1.ListIssuesRequest{ProjectId: "p", Status: "all", Limit: 3})
	if err != nil || !first.GetHasMore() {
		t.Fatal(first, err)
	}
	rest, err := c.ListIssues(ada, &apiv1.ListIssuesRequest{
		ProjectId: "p", Status: "all", Limit: 3,
		Cursor: first.GetNextCursor(),
	})
	if err != nil || len(rest.GetItems()) != 1 || rest.GetItems()[0].GetNumber() != 1 || rest.GetHasMore() {
		t.Errorf("the second page: got %v, %v", rest, err)
	}
	if skipped, err := c.ListIssues(ada, &apiv1.ListIssuesRequest{
		ProjectId: "p", Status: "all", Limit: 2,
		Offset: 1,
	}); err != nil || skipped.GetItems()[0].GetNumber() != 3 {
		t.Errorf("from the second on: got %v, %v", skipped, err)
	}
}

// Comments are stored unchanged, in order. They need an issue and a text. T-ISSUE-COMMENT-01 to -06; T-ISSUE-GET-04,
// -05.
func TestComments(t *testing.T) {
	t.Parallel()
	c, agent := one(t), as(t, "ada", "primary")
	file(t, c, agent, "p", "Title", "")
	for i := range 3 {
		resp, err := c.AddIssueUpdate(agent, &apiv1.AddIssueUpdateRequest{
			ProjectId: "p", Number: 1, Body: fmt.Sprint("comment ", i),
			Visibility: apiv1.IssueVisibility_ISSUE_VISIBILITY_OPERATOR_ONLY,
		})
		if err != nil || resp.GetUpdate().GetAuthor() != "agent:primary" {
			t.Fatal(resp, err)
		}
	}
	page, err := c.ListIssueUpdates(agent, &apiv1.ListIssueUpdatesRequest{ProjectId: "p", Number: 1, Limit: 2})
	if err != nil || len(page.GetItems()) != 2 || !page.GetHasMore() ||
		page.GetItems()[0].GetVisibility() != apiv1.IssueVisibility_ISSUE_VISIBILITY_OPERATOR_ONLY {
		t.Fatal(page, err)
	}
	rest, err := c.ListIssueUpdates(agent, &apiv1.ListIssueUpdatesRequest{
		ProjectId: "p", Number: 1, Limit: 2,
		Cursor: page.GetNextCursor(),
	})
	if err != nil || len(rest.GetItems()) != 1 || rest.GetItems()[0].GetBody() != "comment 2" {
		t.Error(rest, err)
	}
	for name, tt := range map[string]struct {
		number int64
		body   string
		want   fault.Code
	}{
		"empty": {1, " ", fault.ValidationFailed}, "over 16 KiB": {1, strings.Repeat("x", 16<<10+1), fault.ValidationFailed},
		"no issue": {99999, "x", fault.NotFound},
	} {
		if _, err := c.AddIssueUpdate(agent, &apiv1.AddIssueUpdateRequest{
			ProjectId: "p", Number: tt.number,
			Body: tt.body,
		}); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", name, err, tt.want)
		}
	}
}
