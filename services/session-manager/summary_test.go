package sessionmanager

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

// A summary that a model wrote is a message of the session. In the conversation it has only the place of its
// compaction; its cost is reported separately (H-COMPACT-SUM-02, H-COMPACT-COST-01, A-COMP-LIST-02).
func TestASummaryIsAMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s := n.session("ada")
	n.run("ada", s, n.post("ada", s, "Hi.").GetRunId())
	first := n.messages("ada", s)
	w.harness.expect(func(p *play) {
		p.model()
		p.compacts(&harnessv1.Compaction{
			Phase: harnessv1.CompactionPhase_COMPACTION_PHASE_COMPLETED, WindowTokens: 100,
			Spans: []*harnessv1.Span{{MessageId: first[1].GetId()}}, Turns: 1, Messages: 1, Summary: "In short.",
			Compactor: &harnessv1.CompactorUse{
				Provider: "cheap", Model: "m", InputTokens: 9, OutputTokens: 2,
				CostUsd: proto.Float64(0.5),
			},
		})
		p.turn(1, false, text("Done."))
		p.complete(1)
	})
	n.run("ada", s, n.post("ada", s, "Work.").GetRunId())
	all := n.messages("ada", s)
	at := slices.IndexFunc(all, func(m *apiv1.SessionMessage) bool {
		return m.GetMetadata().GetKind() == "compaction_summary"
	})
	if at < 0 || all[at].GetRole() != apiv1.MessageRole_MESSAGE_ROLE_SYSTEM || all[at].GetContent() != "In short." {
		t.Fatalf("messages %v", all)
	}
	got, err := n.Sessions.GetCompaction(as(t, "ada"), &apiv1.GetCompactionRequest{SessionId: s, CompactionId: "cmp_1"})
	if c := got.GetCompaction(); err != nil || c.GetSummaryMessageId() != all[at].GetId() ||
		c.GetCompactorCost().GetCostUsd() != 0.5 ||
		c.GetSummaryMessage().GetMetadata().GetCompactorCost().GetModel() != "m" {
		t.Errorf("%v, %v", c, err)
	}
	list, err := n.Sessions.ListCompactions(as(t, "ada"), &apiv1.ListCompactionsRequest{SessionId: s})
	if err != nil || len(list.GetItems()) != 1 {
		t.Fatalf("listed %v, %v", list, err)
	}
	if c := list.GetItems()[0]; c.GetRunId() == "" || c.GetSummaryMessageId() != all[at].GetId() ||
		c.GetSummary() != "In short." || c.GetCompactorCost().GetInputTokens() != 9 ||
		c.GetCompactorCost().GetOutputTokens() != 2 || c.GetPluginCost() != nil || c.GetSupersededCount() != 1 ||
		c.GetFallbackOccurred() || c.FallbackReason != nil {
		t.Errorf("listed %v", c)
	}
	want := []string{"user@0: Hi.", "system@0: In short.", "user@0: Work.", "assistant@1: Done.", "user@0: More."}
	if got := n.history(t, s); !slices.Equal(got, want) && !strings.Contains(strings.Join(got, "|"),
		"system@0: In short.|user@0: Work.") {
		t.Errorf("the next run is given %q, want %q", got, want)
	}
}

// summaryCall returns the model call of a summarizer between runs.
func summaryCall() *harnessv1.CallWanted {
	return &harnessv1.CallWanted{
		Call: 1, AgentPath: "primary", Model: "cheap:m", Amount: &harnessv1.Amount{Tokens: 900, Calls: 1},
		Audit: auditRecords("agent.request"),
	}
}

// A summary between runs counts towards the operator's spending, and its request is audited (H-COMPACT-COST-01).
func TestASummaryBetweenRunsIsSpent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.harness.compacts = func(c compactCall) (*harnessv1.CompactResponse, error) {
		resp, err := compactsAll(c)
		if g := c.ask(summaryCall()); g.GetCall() != 1 || g.GetError() != nil {
			t.Errorf("the call is answered with %v", g)
		}
		resp.Calls = []*harnessv1.RunEvent{
			{Event: &harnessv1.RunEvent_CallSettled{CallSettled: &harnessv1.CallSettled{
				Call: 1, Amount: &harnessv1.Amount{NanoUsd: 7, Tokens: 40, Calls: 1},
			}}},
		}
		return resp, err
	}
	n := w.start("a")
	s := n.session("ada")
	n.run("ada", s, n.post("ada", s, "Hi.").GetRunId())
	spent := func(tokens int64) func() error {
		return func() error {
			got, err := n.Sessions.GetSpend(as(t, "ada"), &apiv1.GetSpendRequest{})
			if err == nil && got.GetTotal().GetTokens() != tokens {
				err = fmt.Errorf("%d tokens are spent, want %d", got.GetTotal().GetTokens(), tokens)
			}
			return err
		}
	}
	before, err := n.Sessions.GetSpend(as(t, "ada"), &apiv1.GetSpendRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Sessions.CompactSession(as(t, "ada"), &apiv1.CompactSessionRequest{SessionId: s}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the summary is spent", spent(before.GetTotal().GetTokens()+40))
	if records := n.recorded("ada", s); !slices.Contains(records, "agent.request") {
		t.Errorf("recorded %v", records)
	}
}

// A summary between runs needs the session's budget and an unchanged conversation; otherwise its model call is
// refused and costs nothing.
func TestASummaryBetweenRunsIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code  commonv1.ErrorCode
		first func(n *node, s string)
	}{
		"by a budget": {commonv1.ErrorCode_ERROR_CODE_BUDGET_EXCEEDED, func(n *node, s string) {
			if _, err := n.budgeted("ada", s, map[string]any{"tokens": 800}); err != nil {
				t.Error(err)
			}
		}},
		"for a session that moved": {commonv1.ErrorCode_ERROR_CODE_CONFLICT, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			answered := make(chan *harnessv1.CallGranted, 1)
			at, goOn := make(chan struct{}), make(chan struct{})
			w.harness.compacts = func(call compactCall) (*harnessv1.CompactResponse, error) {
				close(at)
				<-goOn
				answered <- call.ask(summaryCall())
				return compactsAll(call)
			}
			n := w.start("a")
			s := n.session("ada")
			n.run("ada", s, n.post("ada", s, "Hi.").GetRunId())
			if c.first != nil {
				c.first(n, s)
			}
			if _, err := n.Sessions.CompactSession(as(t, "ada"), &apiv1.CompactSessionRequest{SessionId: s}); err != nil {
				t.Fatal(err)
			}
			<-at
			if c.first == nil {
				n.run("ada", s, n.post("ada", s, "More.").GetRunId())
			}
			before, err := n.Sessions.GetSpend(as(t, "ada"), &apiv1.GetSpendRequest{})
			if err != nil {
				t.Fatal(err)
			}
			close(goOn)
			if g := <-answered; g.GetError().GetCode() != c.code {
				t.Errorf("answered with %v, want %v", g, c.code)
			}
			after, err := n.Sessions.GetSpend(as(t, "ada"), &apiv1.GetSpendRequest{})
			if err != nil || after.GetTotal().GetCalls() != before.GetTotal().GetCalls() {
				t.Errorf("spent %v, before %v (%v)", after.GetTotal(), before.GetTotal(), err)
			}
		})
	}
}
