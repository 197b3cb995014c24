package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/grpc"

	"kaged.dev/pkg/host"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/postgres/embedded"
	"kaged.dev/pkg/rpc"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	issuev1 "kaged.dev/proto/gen/kaged/issue/v1"
)

// issueOwner is the operator that owns the measured projects.
const issueOwner = "bench"

// tracker is an issue service in its own process with a Postgres, called as the gateway calls it.
type tracker struct {
	issuev1.IssueServiceClient
	database *embedded.Server
	conn     *grpc.ClientConn
	cmd      *exec.Cmd
}

// startTracker starts Postgres with its default settings and the issue service of the measured kaged.
func (w *world) startTracker(ctx context.Context) (_ *tracker, err error) {
	data := filepath.Join(w.dir, "issues")
	t := &tracker{}
	defer func() {
		if err != nil {
			t.stop()
		}
	}()
	if t.database, err = embedded.Start(ctx, embedded.Options{DataDir: data}); err != nil {
		return nil, err
	}
	t.cmd = exec.Command(filepath.Join(filepath.Dir(w.kaged), "issue"), "--data-dir", data)
	t.cmd.Env = append(environ(w.dir), "KAGED_DATABASE_URL="+t.database.OwnerURL(),
		"KAGED_DATABASE_APP_URL="+t.database.URL())
	t.cmd.Stderr = os.Stderr
	if err := t.cmd.Start(); err != nil {
		t.cmd = nil
		return nil, err
	}
	if t.conn, err = grpc.NewClient("unix:"+host.SocketPath(data, "issue"), rpc.DialOptions()...); err != nil {
		return nil, err
	}
	t.IssueServiceClient = issuev1.NewIssueServiceClient(t.conn)
	bounded, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		_, err := t.ListIssues(as(bounded), &apiv1.ListIssuesRequest{ProjectId: issueProject(0)}, grpc.WaitForReady(true))
		if err == nil {
			return t, nil
		}
		select {
		case <-bounded.Done():
			return nil, fmt.Errorf("the issue service does not answer: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// as returns the context of a call of the operator.
func as(ctx context.Context) context.Context {
	return ident.WithCaller(ctx, ident.Caller{UserID: issueOwner})
}

func (t *tracker) stop() {
	if t.conn != nil {
		t.conn.Close()
	}
	if t.cmd != nil {
		_ = t.cmd.Process.Signal(syscall.SIGTERM)
		_ = t.cmd.Wait()
	}
	if t.database != nil {
		bounded, cancel := context.WithTimeout(context.Background(), startLimit)
		defer cancel()
		_ = t.database.Stop(bounded)
	}
}

// measureIssues measures lists and searches among a million issues in a hundred projects, and the creation of an issue
// in excess of its statements.
func measureIssues(ctx context.Context, w *world) ([]Figure, error) {
	t, err := w.startTracker(ctx)
	if err != nil {
		return nil, err
	}
	defer t.stop()
	begun := time.Now()
	if err := fillIssues(ctx, t.database.OwnerURL()); err != nil {
		return nil, err
	}
	fmt.Fprintf(w.progress, "bench: issues: filled in %s\n", time.Since(begun).Round(time.Second))
	var figures []Figure
	for _, ask := range issueRequests() {
		got, err := t.measureRequest(as(ctx), ask)
		if err != nil {
			return figures, fmt.Errorf("%s: %w", ask.name, err)
		}
		figures = append(figures, got...)
	}
	got, err := t.measureFiling(ctx)
	if figures = append(figures, got...); err != nil {
		return figures, err
	}
	got, err = t.measureReminder(as(ctx))
	return append(figures, got...), err
}

// remindedTodos is the number of todos of the issue with the reminder.
const remindedTodos = 100

// measureReminder returns the delay of an agent's step by its open todos.
func (t *tracker) measureReminder(ctx context.Context) ([]Figure, error) {
	project := issueProject(0)
	made, err := t.CreateIssue(ctx, &apiv1.CreateIssueRequest{ProjectId: project, Title: "With todos"})
	if err != nil {
		return nil, err
	}
	var items []string
	for i := range remindedTodos {
		items = append(items, fmt.Sprintf("Look at the place with the number %d.", i))
	}
	number := made.GetIssue().GetNumber()
	request := &apiv1.AddIssueTodosRequest{ProjectId: project, Number: number, Items: items}
	if _, err := t.AddIssueTodos(ctx, request); err != nil {
		return nil, err
	}
	tools := issuev1.NewIssueToolServiceClient(t.conn)
	var sample []time.Duration
	for range issueCalls {
		begun := time.Now()
		resp, err := tools.RemindTodos(ctx, &issuev1.RemindTodosRequest{ProjectId: project, Number: number})
		if err != nil {
			return nil, err
		}
		sample = append(sample, time.Since(begun))
		if resp.GetOpen() != remindedTodos {
			return nil, fmt.Errorf("reminded of %d todos", resp.GetOpen())
		}
	}
	return []Figure{
		{
			Name: "issues/reminder/median", Value: ms(percentile(sample, 50)), Spread: spread(sample), Unit: "ms", Target: 1,
			Note: fmt.Sprintf("among %d open todos", remindedTodos),
		},
		{Name: "issues/reminder/p99", Value: ms(percentile(sample, 99)), Unit: "ms"},
	}, nil
}

// issueCalls is the number of calls of each request, over all projects.
const issueCalls = 400

// issueRequest is a kind of list or search. some is true if it finds issues.
type issueRequest struct {
	name    string
	request *apiv1.ListIssuesRequest
	some    bool
}

// issueRequests are lists that people and agents request, and searches for words in nearly all issues, in some, in few,
// and in no issue; a part of a word is searched in titles.
func issueRequests() []issueRequest {
	words := issueWords()
	search := func(name, q string, some bool) issueRequest {
		return issueRequest{"issues/search/" + name, &apiv1.ListIssuesRequest{Q: q, Status: "all"}, some}
	}
	return []issueRequest{
		{"issues/list/not-ended", &apiv1.ListIssuesRequest{}, true},
		{"issues/list/all", &apiv1.ListIssuesRequest{Status: "all", Limit: 200}, true},
		{"issues/list/one-status", &apiv1.ListIssuesRequest{Status: "rejected"}, true},
		{"issues/list/offset-5000", &apiv1.ListIssuesRequest{Status: "all", Offset: 5000}, true},
		search("common", words[0], true),
		search("medium", words[100], true),
		search("rare", words[1800], true),
		search("two-words", words[5]+" "+words[150], true),
		search("phrase", `"`+words[0]+" "+words[1]+`"`, true),
		search("without", words[40]+" -"+words[0], true),
		search("part", words[300][:len(words[300])-1], true),
		search("common-part", words[0][:len(words[0])-1], true),
		search("no-match", "zzyzx", false),
		{"issues/search/common-with-total", &apiv1.ListIssuesRequest{Q: words[0], Status: "all", WithTotal: true}, true},
		{"issues/list/all-with-total", &apiv1.ListIssuesRequest{Status: "all", WithTotal: true}, true},
		{"issues/search/not-ended", &apiv1.ListIssuesRequest{Q: words[10]}, true},
	}
}

// measureRequest returns the median and the 99th percentile of a request, sent for one project after another.
func (t *tracker) measureRequest(ctx context.Context, ask issueRequest) ([]Figure, error) {
	var sample []time.Duration
	found := 0
	for i := range issueCalls {
		ask.request.ProjectId = issueProject(i * 37)
		begun := time.Now()
		page, err := t.ListIssues(ctx, ask.request)
		if err != nil {
			return nil, err
		}
		sample = append(sample, time.Since(begun))
		found += len(page.GetItems())
	}
	if (found > 0) != ask.some {
		return nil, fmt.Errorf("found %d issues", found)
	}
	return []Figure{
		{
			Name: ask.name + "/median", Value: ms(percentile(sample, 50)), Spread: spread(sample), Unit: "ms",
			Note: fmt.Sprintf("%d found a call", found/issueCalls),
		},
		{Name: ask.name + "/p99", Value: ms(percentile(sample, 99)), Unit: "ms", Target: 30},
	}, nil
}

// The statements that create an issue, from services/issue/internal/store/queries.
const (
	takeNumber = `insert into counters as c (owner_user_id, project_id, last_number) values ($1, $2, 1)
		on conflict (owner_user_id, project_id) do update set last_number = c.last_number + 1 returning last_number`
	insertIssue = `insert into issues (id, owner_user_id, project_id, number, title, body, status, created_by,
			created_at, updated_at, imported_from, client_id, content_hash, words, folded_title)
		values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9, $10, $11, $12,
			to_tsvector('simple', $13::text) || array_to_tsvector(array[$14::text]), $15)`
)

// measureFiling creates issues with the service and with a bare transaction with the same statements, alternately.
func (t *tracker) measureFiling(ctx context.Context) ([]Figure, error) {
	config, err := pgxpool.ParseConfig(t.database.URL())
	if err != nil {
		return nil, err
	}
	config.ConnConfig.RuntimeParams["search_path"] = "issue"
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	var ours, bare []time.Duration
	texts := newIssueTexts(9)
	for i := range issueCalls {
		project, title, body := issueProject(i*37), texts.title(), texts.body()
		begun := time.Now()
		if _, err := t.CreateIssue(as(ctx), &apiv1.CreateIssueRequest{
			ProjectId: project, Title: title,
			Body: body,
		}); err != nil {
			return nil, err
		}
		ours = append(ours, time.Since(begun))
		begun = time.Now()
		if err := fileBare(ctx, pool, project, title, body); err != nil {
			return nil, err
		}
		bare = append(bare, time.Since(begun))
	}
	var figures []Figure
	for _, p := range []float64{50, 90} {
		name := fmt.Sprintf("p%g", p)
		mine, floor := ms(percentile(ours, p)), ms(percentile(bare, p))
		figures = append(figures,
			Figure{Name: "issues/create/" + name, Value: mine, Unit: "ms", Floor: floor, Note: "floor: the bare transaction"},
			Figure{Name: "issues/create/over-bare/" + name, Value: mine - floor, Unit: "ms", Target: 1})
	}
	return figures, nil
}

// fileBare creates an issue with the statements only.
func fileBare(ctx context.Context, pool *pgxpool.Pool, project, title, body string) (err error) {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ignoreClosed(tx.Rollback(ctx))) }()
	var number int64
	if err := tx.QueryRow(ctx, takeNumber, issueOwner, project).Scan(&number); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, insertIssue, ident.New(), issueOwner, project, number, title, body, "open", issueOwner,
		time.Now().UnixMilli(),
		nil, nil, contentHash(title, body), title+"\n"+body, issueScope(project), title)
	if err != nil {
		return err
	}
	return tx.Commit(ctx)
}
