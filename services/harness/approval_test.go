package harness

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"kaged.dev/pkg/testkit/fakellm"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

var approvalSubject = &commonv1.ApprovalSubject{
	Tool: "file.write", AgentPath: "primary", Reasons: []string{"why"}, Command: "c", Cwd: "./", Paths: []string{"./a"},
	Preview: "+d",
}

// A call that needs approval is sent to the caller as the tool runner reported it. The caller's answer applies to
// that call only, and decides whether the tool runner is called again with the grant.
func TestApprovalTravels(t *testing.T) {
	t.Parallel()
	for verdict, want := range map[harnessv1.ApprovalVerdict]struct {
		calls  int
		result string
	}{
		harnessv1.ApprovalVerdict_APPROVAL_VERDICT_APPROVED: {2, "wrote {}"},
		harnessv1.ApprovalVerdict_APPROVAL_VERDICT_DENIED:   {1, "approval_denied"},
		harnessv1.ApprovalVerdict_APPROVAL_VERDICT_EXPIRED:  {1, "approval_expired"},
	} {
		t.Run(verdict.String(), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.tools.asks = true
			r.model.Script(fakellm.Steps(fakellm.Step{fakellm.Tool("file.write", `{}`)}, fakellm.Step{fakellm.Say("Done.")}))
			w := r.begin(t.Context(), r.start("anthropic"))
			asked := w.until(t, func(ev *harnessv1.RunEvent) bool { return ev.GetApproval() != nil }).GetApproval()
			if d := cmp.Diff(approvalSubject, asked.GetSubject(), protocmp.Transform()); d != "" || asked.GetStep() != 1 ||
				asked.GetToolCallId() == "" || len(asked.GetAudit()) != 1 {
				t.Errorf("%v %s", asked, d)
			}
			// An answer to an unknown question is ignored.
			for _, id := range []string{"another", asked.GetApprovalId(), asked.GetApprovalId()} {
				v := verdict
				if id == "another" {
					v = harnessv1.ApprovalVerdict_APPROVAL_VERDICT_APPROVED
				}
				if err := w.stream.Send(&harnessv1.RunRequest{Request: &harnessv1.RunRequest_Decision{
					Decision: &harnessv1.ApprovalDecision{
						ApprovalId: id, Verdict: v,
					},
				}}); err != nil {
					t.Fatal(err)
				}
			}
			if fin := w.finish(t); fin.GetOutcome() != harnessv1.Outcome_OUTCOME_COMPLETED {
				t.Errorf("%v", fin)
			}
			var result string
			for _, ev := range w.events {
				if ev.GetToolResult() != nil {
					result = ev.GetToolResult().GetResult().GetContent()
				}
			}
			if !strings.Contains(result, want.result) || len(r.tools.seen) != want.calls {
				t.Errorf("%d calls, %s", len(r.tools.seen), result)
			}
		})
	}
}

// If the caller closes its side while the run waits for approval, the run ends and the call is not made.
func TestNoAnswerComes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.tools.asks = true
	r.model.Script(fakellm.Steps(fakellm.Step{fakellm.Tool("file.write", `{}`)}))
	w := r.begin(t.Context(), r.start("anthropic"))
	w.until(t, func(ev *harnessv1.RunEvent) bool { return ev.GetApproval() != nil })
	if err := w.stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	for {
		ev, err := w.stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if ev.GetFinished() != nil {
			break
		}
	}
	if len(r.tools.seen) != 1 {
		t.Errorf("%d calls", len(r.tools.seen))
	}
}
