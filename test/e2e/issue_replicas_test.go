package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/host"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/rpc"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	issuev1 "kaged.dev/proto/gen/kaged/issue/v1"
	"kaged.dev/test/e2e/kagedtest"
)

// replica is an issue service in its own process.
type replica struct {
	issuev1.IssueServiceClient
	tools   issuev1.IssueToolServiceClient
	env     []string
	process *kagedtest.Process
}

// replicas returns issue services on one database, which are not started yet.
func replicas(t *testing.T, n int) (list []*replica) {
	t.Helper()
	env := append(kagedtest.Environ(), databaseEnv(t)...)
	dir := t.TempDir()
	for i := range n {
		data := filepath.Join(dir, fmt.Sprint(i))
		conn, err := grpc.NewClient("unix:"+host.SocketPath(data, "issue"), rpc.DialOptions()...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		list = append(list, &replica{
			IssueServiceClient: issuev1.NewIssueServiceClient(conn), tools: issuev1.NewIssueToolServiceClient(conn),
			env: append(slices.Clone(env), "KAGED_DATA_DIR="+data),
		})
	}
	return list
}

// start starts the replica and waits until it answers.
func (r *replica) start(t *testing.T, more ...string) {
	t.Helper()
	r.process = kagedtest.Command(t, "issue", append(slices.Clone(r.env), more...))
	kagedtest.Eventually(t, "the replica answers", func() bool {
		_, err := r.ListIssues(boarder(t), &apiv1.ListIssuesRequest{ProjectId: "p"}, grpc.WaitForReady(true))
		return err == nil
	})
}

// boarder returns the context of the operator of the board.
func boarder(t *testing.T) context.Context {
	return ident.WithCaller(t.Context(), ident.Caller{UserID: "ada"})
}

// word has the changes that the service has acknowledged to all participants.
type word struct {
	mu sync.Mutex // guards the fields below
	// filed has the numbers of issues by their first titles, changed the new versions of each issue.
	filed   map[string]int64
	changed map[int64][]int64
	// said has comments, noted has todos, with their issues.
	said, noted map[string]int64
	lost        int // the number of lost answers
}

// participant is one of many users of a board. Its actions depend only on its random numbers.
type participant struct {
	t        *testing.T
	name     string
	random   *rand.Rand
	replicas []*replica
	*word
}

// heard calls acknowledge if an answer arrived, and reports whether one did. A refusal because of other participants is
// an answer.
func (p *participant) heard(err error, acknowledge func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := fault.From(err)
	switch {
	case f == nil:
		acknowledge()
	case f.Code == fault.Conflict, f.Code == fault.NotFound, f.Code == fault.TodoNotFound, f.Code == fault.IssueNotFound,
		f.Code == fault.InvalidTransition:
	case f.Code == fault.Unavailable:
		p.lost++
		return false
	default:
		p.t.Errorf("%s: %v", p.name, err)
	}
	return true
}

func (p *participant) any() *replica { return p.replicas[p.random.IntN(len(p.replicas))] }

func (p *participant) act(step int) {
	number, text := 1+p.random.Int64N(5), fmt.Sprintf("%s in step %d", p.name, step)
	switch p.random.IntN(7) {
	case 0:
		p.file(text)
	case 1:
		p.change(number, func(req *apiv1.UpdateIssueRequest, _ []apiv1.IssueStatus) { req.Title = &text })
	case 2:
		p.change(number, func(req *apiv1.UpdateIssueRequest, legal []apiv1.IssueStatus) {
			req.Status, req.Comment = legal[p.random.IntN(len(legal))], text
		})
	case 3:
		req := &apiv1.AddIssueUpdateRequest{ProjectId: "p", Number: number, Body: text}
		_, err := p.any().AddIssueUpdate(boarder(p.t), req)
		p.heard(err, func() { p.said[text] = number })
	case 4:
		_, err := p.any().AddIssueTodos(boarder(p.t), &apiv1.AddIssueTodosRequest{
			ProjectId: "p", Number: number, Items: []string{text},
		})
		p.heard(err, func() { p.noted[text] = number })
	case 5:
		p.work(number)
	case 6:
		p.verify(number)
	}
}

// work starts, completes or drops a todo like an agent. An index refuses a second todo in progress, so the loss of a
// change back to pending is an error.
func (p *participant) work(number int64) {
	agent := ident.WithCaller(p.t.Context(), ident.Caller{UserID: "ada", AgentPath: "primary"})
	_, err := p.any().tools.WorkTodos(agent, &issuev1.WorkTodosRequest{
		ProjectId: "p", Number: number, Action: []string{"start", "done", "drop"}[p.random.IntN(3)],
		Content: p.name + " in step",
	})
	p.heard(err, func() {})
}

// verify starts, completes or reverts a todo like an operator.
func (p *participant) verify(number int64) {
	list, err := p.any().ListIssueTodos(boarder(p.t), &apiv1.ListIssueTodosRequest{ProjectId: "p", Number: number})
	if !p.heard(err, func() {}) || len(list.GetItems()) == 0 {
		return
	}
	to := []apiv1.TodoStatus{
		apiv1.TodoStatus_TODO_STATUS_PENDING, apiv1.TodoStatus_TODO_STATUS_IN_PROGRESS,
		apiv1.TodoStatus_TODO_STATUS_COMPLETED,
	}[p.random.IntN(3)]
	_, err = p.any().UpdateIssueTodo(boarder(p.t), &apiv1.UpdateIssueTodoRequest{
		ProjectId: "p", Number: number, Id: list.GetItems()[p.random.IntN(len(list.GetItems()))].GetId(), Status: to,
	})
	p.heard(err, func() {})
}

// file creates an issue, and repeats it with the same client id until a replica confirms it.
func (p *participant) file(title string) {
	for known := false; !known && p.t.Context().Err() == nil; {
		resp, err := p.any().CreateIssue(boarder(p.t), &apiv1.CreateIssueRequest{
			ProjectId: "p", Title: title, ClientId: strings.ReplaceAll(title, " ", "-"),
		}, grpc.WaitForReady(true))
		known = p.heard(err, func() { p.filed[title] = resp.GetIssue().GetNumber() })
	}
}

// change changes an issue in the version that was read; it is refused if the issue was changed meanwhile.
func (p *participant) change(number int64, fill func(*apiv1.UpdateIssueRequest, []apiv1.IssueStatus)) {
	got, err := p.any().GetIssue(boarder(p.t), &apiv1.GetIssueRequest{ProjectId: "p", Number: number})
	if !p.heard(err, func() {}) || err != nil {
		return
	}
	req := &apiv1.UpdateIssueRequest{ProjectId: "p", Number: number, Version: got.GetIssue().GetVersion()}
	fill(req, got.GetIssue().GetLegalTransitions())
	resp, err := p.any().UpdateIssue(boarder(p.t), req)
	p.heard(err, func() {
		p.changed[number] = append(p.changed[number], resp.GetIssue().GetVersion())
		if req.GetComment() != "" {
			p.said[req.GetComment()] = number
		}
	})
}

// Fifty agents and people use one board with two replicas, each of which is killed repeatedly. No number is used twice
// or left out, no acknowledged change is lost or overwrites another, each comment exists once, each history is a path
// through the state machine, and at most one todo of an issue is in progress.
func TestABoardOutlivesItsReplicas(t *testing.T) {
	t.Parallel()
	const participants, steps, kills = 50, 12, 8
	list := replicas(t, 2)
	for _, r := range list {
		r.start(t)
	}
	w := &word{
		filed: map[string]int64{}, changed: map[int64][]int64{}, said: map[string]int64{}, noted: map[string]int64{},
	}
	var work sync.WaitGroup
	var done [kills]sync.WaitGroup
	for n := range participants {
		p := &participant{t, fmt.Sprint("participant ", n), rand.New(rand.NewPCG(uint64(n), 14)), list, w}
		for i := range done {
			done[i].Add(1)
		}
		work.Go(func() {
			for step := range steps * kills {
				p.act(step)
				if step%steps == steps/2 {
					done[step/steps].Done()
				}
			}
		})
	}
	for i := range done {
		done[i].Wait() // all are in the middle of their steps
		r := list[i%len(list)]
		r.process.Kill()
		<-r.process.Done()
		r.start(t)
	}
	work.Wait()
	t.Logf("%d issues, %d comments, %d answers lost", len(w.filed), len(w.said), w.lost)
	w.check(t, list[0])
}

// check compares the board with the acknowledged changes.
func (w *word) check(t *testing.T, r *replica) {
	t.Helper()
	var numbers []int64
	for req := (&apiv1.ListIssuesRequest{ProjectId: "p", Status: "all", Limit: 200}); ; {
		resp, err := r.ListIssues(boarder(t), req)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range resp.GetItems() {
			numbers = append(numbers, i.GetNumber())
		}
		if req.Cursor = resp.GetNextCursor(); !resp.GetHasMore() {
			break
		}
	}
	slices.Reverse(numbers)
	for i, n := range numbers {
		if n != int64(i+1) {
			t.Fatalf("the numbers are %d", numbers)
		}
	}
	given := map[int64]string{}
	for title, n := range w.filed {
		if given[n] != "" {
			t.Errorf("#%d is %q and %q", n, given[n], title)
		}
		given[n] = title
	}
	if len(given) != len(numbers) {
		t.Errorf("%d issues were filed and %d are there", len(given), len(numbers))
	}
	said, noted := map[string]int64{}, map[string]int64{}
	for _, n := range numbers {
		w.checkIssue(t, r, n, said, noted)
	}
	for what, pair := range map[string][2]map[string]int64{"comment": {w.said, said}, "todo": {w.noted, noted}} {
		for text, n := range pair[0] {
			if pair[1][text] != n {
				t.Errorf("the %s %q of #%d was acknowledged and is at #%d", what, text, n, pair[1][text])
			}
		}
	}
}

// checkIssue checks the history of an issue and collects its comments and todos.
func (w *word) checkIssue(t *testing.T, r *replica, n int64, said, noted map[string]int64) {
	t.Helper()
	once := func(seen map[string]int64, text string) {
		if at, twice := seen[text]; twice {
			t.Errorf("%q is at #%d and #%d", text, at, n)
		}
		seen[text] = n
	}
	got, err := r.GetIssue(boarder(t), &apiv1.GetIssueRequest{ProjectId: "p", Number: n})
	if err != nil {
		t.Fatal(err)
	}
	changes, status := int64(0), "open"
	for req := (&apiv1.ListIssueUpdatesRequest{ProjectId: "p", Number: n, Limit: 200}); ; {
		resp, err := r.ListIssueUpdates(boarder(t), req)
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range resp.GetItems() {
			switch u.GetKind() {
			case apiv1.IssueUpdateKind_ISSUE_UPDATE_KIND_COMMENT:
				once(said, u.GetBody())
				continue
			case apiv1.IssueUpdateKind_ISSUE_UPDATE_KIND_STATUS_CHANGE:
				m := u.GetMetadata().AsMap()
				if m["old_status"] != status {
					t.Errorf("#%d goes on from %v, want %s", n, m["old_status"], status)
				}
				status, _ = m["new_status"].(string)
			}
			changes++
		}
		if req.Cursor = resp.GetNextCursor(); !resp.GetHasMore() {
			break
		}
	}
	now := strings.ToLower(strings.TrimPrefix(got.GetIssue().GetStatus().String(), "ISSUE_STATUS_"))
	if version := got.GetIssue().GetVersion(); version != 1+changes || now != status {
		t.Errorf("#%d has version %d and is %s, after %d changes to %s", n, version, now, changes, status)
	}
	slices.Sort(w.changed[n])
	if len(slices.Compact(slices.Clone(w.changed[n]))) != len(w.changed[n]) {
		t.Errorf("two changes of #%d were acknowledged as one version: %d", n, w.changed[n])
	}
	if v := w.changed[n]; len(v) > 0 && v[len(v)-1] > 1+changes {
		t.Errorf("version %d of #%d was acknowledged and is lost", v[len(v)-1], n)
	}
	todos, err := r.ListIssueTodos(boarder(t), &apiv1.ListIssueTodosRequest{ProjectId: "p", Number: n})
	if err != nil {
		t.Fatal(err)
	}
	working := 0
	for i, todo := range todos.GetItems() {
		once(noted, todo.GetContent())
		if todo.GetStatus() == apiv1.TodoStatus_TODO_STATUS_IN_PROGRESS {
			working++
		}
		if todo.GetPosition() != int32(i) {
			t.Errorf("todo %d of #%d stands at %d", i, n, todo.GetPosition())
		}
	}
	if working > 1 {
		t.Errorf("%d todos of #%d are at work", working, n)
	}
}
