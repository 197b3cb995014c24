package sessionmanager

import (
	"testing"

	"kaged.dev/pkg/fault"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

// pushes requests an approval for a push of a branch like the harness.
func (p *play) pushes(id, branch string) {
	p.send(&harnessv1.RunEvent{Event: &harnessv1.RunEvent_Approval{Approval: &harnessv1.ApprovalRequested{
		ApprovalId: id, ToolCallId: "c1", Step: 1, Audit: auditRecords("tool.called", "tool.approval.requested"),
		Subject: &commonv1.ApprovalSubject{
			Tool: "shell.bash", AgentPath: "primary", Reasons: []string{"It is destructive."},
			Command: "git push --force " + branch,
			Cwd:     "./", Standing: []string{"command", "words"}, Words: []string{"git", "push", "--force", branch},
		},
	}}})
}

// pushing is a run that requests approvals for pushes one after the other.
func pushing(decided chan<- *harnessv1.ApprovalDecision, prefix string, branches ...string) func(*play) {
	return func(p *play) {
		p.model()
		p.turn(1, true, call("c1", "shell.bash", `{}`))
		for i, b := range branches {
			p.pushes(prefix+string(rune('a'+i)), b)
			decided <- p.decision()
		}
		p.tool(1, "c1", "shell.bash", `{}`, "ran")
		p.done(1)
		p.complete(1)
	}
}

func (n *node) pending(user, session, id string) *apiv1.Approval {
	n.w.t.Helper()
	n.w.await(session, "events", `approval.requested {"approval_id":"`+id)
	resp, err := n.Sessions.GetApproval(as(n.w.t, user), &apiv1.GetApprovalRequest{SessionId: session, ApprovalId: id})
	if err != nil {
		n.w.t.Fatal(err)
	}
	return resp.GetApproval()
}

func (n *node) stands(user string, req *apiv1.AnswerApprovalRequest) (*apiv1.Approval, error) {
	req.Decision = "approve"
	resp, err := n.Sessions.AnswerApproval(as(n.w.t, user), req)
	return resp.GetApproval(), err
}

// An answer with a scope states the shown call: its hash, and only words that it has. Others are refused, and
// the request stays open.
func TestStandingApprovalsNameTheShownCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s := n.session("ada")
	decided := make(chan *harnessv1.ApprovalDecision, 8)
	w.harness.expect(pushing(decided, "q1", "main"))
	posted := n.post("ada", s, "Push.")
	asked := n.pending("ada", s, "q1a")
	if len(asked.GetHash()) != 64 || len(asked.GetOffers()) != 2 || asked.GetOffers()[1].GetKind() != "words" {
		t.Fatalf("the request is %v", asked)
	}
	answer := func(change func(*apiv1.AnswerApprovalRequest)) *apiv1.AnswerApprovalRequest {
		req := &apiv1.AnswerApprovalRequest{SessionId: s, ApprovalId: "q1a", Scope: "session", Hash: asked.GetHash()}
		change(req)
		return req
	}
	for _, change := range []func(*apiv1.AnswerApprovalRequest){
		func(r *apiv1.AnswerApprovalRequest) { r.Scope = "always" },
		func(r *apiv1.AnswerApprovalRequest) { r.Hash = "" },
		func(r *apiv1.AnswerApprovalRequest) { r.Kind = "files" },
		func(r *apiv1.AnswerApprovalRequest) { r.Words = 3 },
		func(r *apiv1.AnswerApprovalRequest) { r.Kind, r.Words = "words", 1 },
		func(r *apiv1.AnswerApprovalRequest) { r.Kind, r.Words = "words", 5 },
		func(r *apiv1.AnswerApprovalRequest) { r.Scope, r.Kind = "", "command" },
	} {
		_, err := n.stands("ada", answer(change))
		refused(t, err, fault.ValidationFailed)
	}
	_, err := n.stands("ada", answer(func(r *apiv1.AnswerApprovalRequest) { r.Hash = "0" }))
	if d := refused(t, err, fault.Conflict).Details; d["reason"] != "stale_hash" {
		t.Errorf("got details %v, want reason stale_hash", d)
	}
	_, err = n.Sessions.AnswerApproval(as(t, "ada"), &apiv1.AnswerApprovalRequest{
		SessionId: s, ApprovalId: "q1a", Decision: "deny", Scope: "session", Hash: asked.GetHash(),
	})
	refused(t, err, fault.ValidationFailed)
	if _, err := n.answer("ada", s, "q1a", "deny", ""); err != nil {
		t.Fatal(err)
	}
	n.run("ada", s, posted.GetRunId())
}

// An answer with scope session and the hash of the shown call allows the same command in that session without a
// question. Audit records and the approved request name the standing approval.
func TestStandingApprovalOfASession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s := n.session("ada")
	decided := make(chan *harnessv1.ApprovalDecision, 8)
	w.harness.expect(pushing(decided, "q1", "main", "main"))
	posted := n.post("ada", s, "Push.")
	asked := n.pending("ada", s, "q1a")
	granted, err := n.stands("ada", &apiv1.AnswerApprovalRequest{
		SessionId: s, ApprovalId: "q1a", Scope: "session", Hash: asked.GetHash(),
	})
	if err != nil || granted.GetStandingApprovalId() == "" {
		t.Fatal(granted, err)
	}
	n.run("ada", s, posted.GetRunId())
	<-decided
	if d := <-decided; d.GetVerdict() != harnessv1.ApprovalVerdict_APPROVAL_VERDICT_APPROVED {
		t.Errorf("the second call was %v", d)
	}
	events := w.await(s, "events", `session.state {"state":"idle"}`)
	if count(events, "approval.requested") != 1 || count(events, "approval.resolved") != 2 {
		t.Errorf("frames %q", events)
	}
	second, err := n.Sessions.GetApproval(as(t, "ada"), &apiv1.GetApprovalRequest{SessionId: s, ApprovalId: "q1b"})
	if err != nil || second.GetApproval().GetStandingApprovalId() != granted.GetStandingApprovalId() ||
		second.GetApproval().GetState() != apiv1.ApprovalState_APPROVAL_STATE_APPROVED {
		t.Errorf("the second request is %v, %v", second, err)
	}
	if r := n.recorded("ada", s); occurs(r, "approval.standing_granted") != 1 || occurs(r, "tool.approval.granted") != 2 ||
		occurs(r, "tool.approval.requested") != 2 {
		t.Errorf("records %q", r)
	}
}

// An answer with scope project allows the same words of a command in each session of the project, until it is revoked.
// A standing approval of one session does not reach another, and other operators see none.
func TestStandingApprovalOfAProject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s, other := n.session("ada"), n.session("ada")
	decided := make(chan *harnessv1.ApprovalDecision, 8)
	w.harness.expect(pushing(decided, "q1", "main"))
	posted := n.post("ada", s, "Push.")
	asked := n.pending("ada", s, "q1a")
	if _, err := n.stands("ada", &apiv1.AnswerApprovalRequest{
		SessionId: s, ApprovalId: "q1a", Scope: "session", Hash: asked.GetHash(),
	}); err != nil {
		t.Fatal(err)
	}
	n.run("ada", s, posted.GetRunId())
	<-decided

	w.harness.next()
	w.harness.expect(pushing(decided, "q2", "main", "next"))
	posted = n.post("ada", other, "Push.")
	asked = n.pending("ada", other, "q2a")
	wide, err := n.stands("ada", &apiv1.AnswerApprovalRequest{
		SessionId: other, ApprovalId: "q2a", Scope: "project", Kind: "words", Words: 3, Hash: asked.GetHash(),
	})
	if err != nil {
		t.Fatal(err)
	}
	n.run("ada", other, posted.GetRunId())
	<-decided
	<-decided
	list, err := n.Sessions.ListStandingApprovals(as(t, "ada"), &apiv1.ListStandingApprovalsRequest{ProjectId: "music"})
	if err != nil || len(list.GetItems()) != 2 || list.GetItems()[0].GetScope() != "project" ||
		list.GetItems()[0].GetUsed() != 1 ||
		len(list.GetItems()[0].GetWords()) != 3 || list.GetItems()[1].GetSessionId() != s {
		t.Fatal(list, err)
	}
	if list, err = n.Sessions.ListStandingApprovals(as(t, "eve"), &apiv1.ListStandingApprovalsRequest{}); err != nil ||
		len(list.GetItems()) != 0 {
		t.Error(list, err)
	}
	_, err = n.Sessions.RevokeStandingApproval(as(t, "eve"),
		&apiv1.RevokeStandingApprovalRequest{Id: wide.GetStandingApprovalId()})
	refused(t, err, fault.NotFound)
	for range 2 { // the second revocation changes nothing
		revoked, err := n.Sessions.RevokeStandingApproval(
			as(t, "ada"), &apiv1.RevokeStandingApprovalRequest{Id: wide.GetStandingApprovalId()},
		)
		if err != nil || revoked.GetStandingApproval().GetRevokedAt() == 0 {
			t.Fatal(revoked, err)
		}
	}
	w.harness.next()
	w.harness.expect(pushing(decided, "q3", "main"))
	posted = n.post("ada", other, "Push again.")
	n.pending("ada", other, "q3a")
	if _, err := n.answer("ada", other, "q3a", "deny", ""); err != nil {
		t.Fatal(err)
	}
	n.run("ada", other, posted.GetRunId())
}
