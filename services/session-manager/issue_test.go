package sessionmanager

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	issuev1 "kaged.dev/proto/gen/kaged/issue/v1"
)

// issueService has the issues 1 to 9 of every project.
type issueService struct {
	issuev1.UnimplementedIssueServiceServer
}

func (issueService) GetIssue(_ context.Context, req *apiv1.GetIssueRequest) (*apiv1.GetIssueResponse, error) {
	if req.GetNumber() > 9 {
		return nil, fault.New(fault.NotFound, "There is no issue #%d.", req.GetNumber())
	}
	return &apiv1.GetIssueResponse{Issue: &apiv1.IssueDetail{Number: req.GetNumber()}}, nil
}

// issueTools has open todos of issue 3 of ada's project music, one fewer at each request.
type issueTools struct {
	issuev1.UnimplementedIssueToolServiceServer
	left *atomic.Int32
}

func (s issueTools) RemindTodos(
	ctx context.Context, req *issuev1.RemindTodosRequest,
) (*issuev1.RemindTodosResponse, error) {
	if ident.CallerFrom(ctx).UserID != "ada" || req.GetProjectId() != "music" || req.GetNumber() != 3 {
		return &issuev1.RemindTodosResponse{}, nil
	}
	left := s.left.Add(-1)
	if left < 0 {
		return nil, fault.New(fault.Unavailable, "The issues are away.")
	}
	return &issuev1.RemindTodosResponse{Open: left, Todos: []*issuev1.ToolTodo{
		{Content: "look", Status: "in_progress", Kind: "step"}, {Content: "it works", Status: "pending", Kind: "criterion"},
	}}, nil
}

func issuesTo9(t testing.TB) grpc.ClientConnInterface {
	conn, _ := serve(t, func(s grpc.ServiceRegistrar) {
		issuev1.RegisterIssueServiceServer(s, issueService{})
		left := new(atomic.Int32)
		left.Store(9)
		issuev1.RegisterIssueToolServiceServer(s, issueTools{left: left})
	})
	return conn
}

// A run on an issue receives the issue's present open todos at its start and with the results of each step of the
// root agent; if the lookup fails it continues without them. T-TODO-STICKY-01, -04.
func TestARunIsGivenTheOpenTodos(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s := n.bound("ada", 3)
	var got []int32
	w.harness.expect(func(p *play) {
		got = append(got, p.start.GetOpenTodos().GetOpen())
		if shown := p.start.GetOpenTodos().GetShown(); len(shown) != 2 || !shown[0].GetWorking() || shown[0].GetCriterion() ||
			shown[1].GetContent() != "it works" || !shown[1].GetCriterion() {
			t.Errorf("given %v", shown)
		}
		p.model()
		for step := int32(1); step <= 9; step++ {
			id := fmt.Sprint("c", step)
			if turn := p.turn(step, true, call(id, "file.read", "{}")); turn.GetOpenTodos() != nil {
				t.Errorf("a turn came with %v", turn.GetOpenTodos())
			}
			p.tool(step, id, "file.read", "{}", "text")
			got = append(got, p.done(step).GetOpenTodos().GetOpen())
		}
		p.complete(9)
	})
	if run := n.run("ada", s, n.post("ada", s, "go").GetRunId()); run.GetOutcome() != "completed" {
		t.Errorf("the run %v", run)
	}
	if want := []int32{8, 7, 6, 5, 4, 3, 2, 1, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("told of %d, want %d", got, want)
	}
}

// bound creates a session that works on an issue.
func (n *node) bound(user string, issue int64) string {
	n.w.t.Helper()
	n.session(user) // loads the project
	created, err := n.Sessions.CreateSession(as(n.w.t, user),
		&apiv1.CreateSessionRequest{ProjectId: "music", IssueNumber: issue})
	if err != nil {
		n.w.t.Fatal(err)
	}
	return created.GetId()
}

// A session works on an issue of its project since its creation or since an update, and its runs receive the
// number.
func TestASessionWorksOnAnIssue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s := n.bound("ada", 3)
	if got := n.get("ada", s).GetIssueNumber(); got != 3 {
		t.Errorf("the session works on #%d", got)
	}
	n.run("ada", s, n.post("ada", s, "go").GetRunId())
	if got := w.harness.next().start.GetIssueNumber(); got != 3 {
		t.Errorf("the run was told of #%d", got)
	}
	change := func(v *structpb.Value) error {
		_, err := n.Sessions.UpdateSession(as(t, "ada"), &apiv1.UpdateSessionRequest{Id: s, IssueNumber: v})
		return err
	}
	if err := change(structpb.NewNumberValue(4)); err != nil || n.get("ada", s).GetIssueNumber() != 4 {
		t.Errorf("after a change: %v, %v", n.get("ada", s), err)
	}
	if err := change(structpb.NewNullValue()); err != nil || n.get("ada", s).IssueNumber != nil {
		t.Errorf("after null: %v, %v", n.get("ada", s), err)
	}
	refused(t, change(structpb.NewNumberValue(10)), fault.NotFound)
	refused(t, change(structpb.NewNumberValue(0)), fault.ValidationFailed)
	refused(t, change(structpb.NewStringValue("3")), fault.ValidationFailed)
	_, err := n.Sessions.CreateSession(as(t, "ada"), &apiv1.CreateSessionRequest{ProjectId: "music", IssueNumber: 10})
	refused(t, err, fault.NotFound)
	_, err = n.Sessions.CreateSession(as(t, "ada"), &apiv1.CreateSessionRequest{ProjectId: "music", IssueNumber: -1})
	refused(t, err, fault.ValidationFailed)
	list, err := n.Sessions.ListSessions(as(t, "ada"), &apiv1.ListSessionsRequest{ProjectId: "music"})
	if err != nil || list.GetItems()[0].IssueNumber != nil {
		t.Errorf("listed %v, %v", list, err)
	}
}

// At most one run works on an issue, across sessions and replicas. A message of another session is refused until
// the run is over, and the first session keeps its issue meanwhile.
func TestOneRunWorksOnAnIssue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := w.start("a"), w.start("b")
	first, second, other := one.bound("ada", 3), two.bound("ada", 3), two.bound("ada", 4)
	release := make(chan struct{})
	w.harness.expect(func(p *play) {
		<-release
		sayHello(p)
	})
	run := one.post("ada", first, "go").GetRunId()
	text := "me too"
	_, err := two.Sessions.PostMessage(as(t, "ada"), &apiv1.PostMessageRequest{SessionId: second, Content: &text})
	if f := refused(t, err, fault.Conflict); f.Details["reason"] != "issue_busy" {
		t.Errorf("details %v", f.Details)
	}
	if got := two.messages("ada", second); len(got) != 0 {
		t.Errorf("the refused message was kept: %v", got)
	}
	two.run("ada", other, two.post("ada", other, "go").GetRunId())
	_, err = one.Sessions.UpdateSession(as(t, "ada"), &apiv1.UpdateSessionRequest{
		Id: first, IssueNumber: structpb.NewNumberValue(5),
	})
	refused(t, err, fault.Conflict)
	close(release)
	one.run("ada", first, run)
	two.run("ada", second, two.post("ada", second, "go").GetRunId())
}

// A changed issue is shown in each session of its project on each replica, and in no session of another project or
// operator. A-WS-EV-08, -09.
func TestChangedIssuesAreShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := w.start("a"), w.start("b")
	first, second, hers := one.session("ada"), two.session("ada"), two.session("eve")
	one.attach("ada", first, false)
	two.attach("ada", second, false)
	two.attach("eve", hers, false)
	conn := w.nats.Connect(t)
	tell := func(owner, project string, number int64, created bool) {
		t.Helper()
		data, err := proto.Marshal(&issuev1.IssueChanged{
			OwnerUserId: owner, ProjectId: project, Number: number, Created: created,
		})
		if err == nil {
			err = conn.Notify(t.Context(), "issues.changed", data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.Notify(t.Context(), "issues.changed", []byte("no message")); err != nil {
		t.Fatal(err)
	}
	tell("ada", "noise", 8, true)
	tell("ada", "music", 7, true)
	tell("ada", "music", 7, false)
	tell("eve", "music", 1, false)
	for _, session := range []string{first, second} {
		got := w.await(session, "events", "issue.updated")
		want := []string{`issue.created {"project_id":"music","number":7}`, `issue.updated {"project_id":"music","number":7}`}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	want := []string{`issue.updated {"project_id":"music","number":1}`}
	if got := w.await(hers, "events", "issue.updated"); !slices.Equal(got, want) {
		t.Errorf("another operator's session got %q", got)
	}
}
