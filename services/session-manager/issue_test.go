package sessionmanager

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/structpb"

	"kaged.dev/pkg/fault"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	issuev1 "kaged.dev/proto/gen/kaged/issue/v1"
)

// issueService knows the issues 1 to 9 of every project.
type issueService struct {
	issuev1.UnimplementedIssueServiceServer
}

func (issueService) GetIssue(_ context.Context, req *apiv1.GetIssueRequest) (*apiv1.GetIssueResponse, error) {
	if req.GetNumber() > 9 {
		return nil, fault.New(fault.NotFound, "There is no issue #%d.", req.GetNumber())
	}
	return &apiv1.GetIssueResponse{Issue: &apiv1.IssueDetail{Number: req.GetNumber()}}, nil
}

func issuesTo9(t testing.TB) grpc.ClientConnInterface {
	conn, _ := serve(t, func(s grpc.ServiceRegistrar) { issuev1.RegisterIssueServiceServer(s, issueService{}) })
	return conn
}

// bound creates a session that works on an issue.
func (n *node) bound(user string, issue int64) string {
	n.w.t.Helper()
	n.session(user) // the project is loaded
	created, err := n.Sessions.CreateSession(as(n.w.t, user), &apiv1.CreateSessionRequest{ProjectId: "music", IssueNumber: issue})
	if err != nil {
		n.w.t.Fatal(err)
	}
	return created.GetId()
}

// A session works on an issue of its project from its creation on or from a change on, and its runs are told which.
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

// One run at most works on an issue, across sessions and replicas; another session's message is refused until it is over, and
// the session keeps its issue meanwhile.
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
	_, err = one.Sessions.UpdateSession(as(t, "ada"), &apiv1.UpdateSessionRequest{Id: first, IssueNumber: structpb.NewNumberValue(5)})
	refused(t, err, fault.Conflict)
	close(release)
	one.run("ada", first, run)
	two.run("ada", second, two.post("ada", second, "go").GetRunId())
}
