//go:build faults

package sessionmanager

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/crash"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

// Killed after a summarizer was paid and before its summary is stored, session-manager leaves its call as one of
// unknown use, and the conversation whole; killed when the compaction is stored, it has the summary, its cost and
// its use.
func TestKilledAtASummary(t *testing.T) {
	t.Parallel()
	for point, used := range map[crash.Point]bool{crash.SummaryPaid: false, crash.CompactionStored: true} {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.primary("include_tool_results_in_context: true")
			w.network(t)
			first, dead := w.spawn(t, "one", crash.Variable+"="+string(point))
			s := first.session("ada")
			w.harness.expect(func(p *play) {
				p.model()
				// Events before a turn are on disk when the turn is acknowledged.
				amount := &harnessv1.Amount{Tokens: 50, Calls: 1}
				p.send(&harnessv1.RunEvent{Event: &harnessv1.RunEvent_CallWanted{CallWanted: &harnessv1.CallWanted{
					Call: 2, AgentPath: "primary", Model: "cheap:m", Amount: amount,
				}}})
				p.turn(1, true, text("Reading."), call("c", "file.read", `{}`))
				p.tool(1, "c", "file.read", `{}`, "content")
				p.done(1)
				p.send(&harnessv1.RunEvent{Event: &harnessv1.RunEvent_CallSettled{CallSettled: &harnessv1.CallSettled{
					Call: 2, Amount: &harnessv1.Amount{Tokens: 40, Calls: 1}, OfTurn: true,
				}}})
				p.compacts(&harnessv1.Compaction{
					Phase: harnessv1.CompactionPhase_COMPACTION_PHASE_COMPLETED, WindowTokens: 100,
					Spans: []*harnessv1.Span{{MessageId: p.start.GetMessageId(), FromStep: 1, ToStep: 1}},
					Turns: 1, Messages: 2, Summary: "In short.",
					Compactor: &harnessv1.CompactorUse{
						Provider: "cheap", Model: "m", InputTokens: 38, OutputTokens: 2,
						CostUsd: proto.Float64(0.5),
					},
				})
				<-p.stream.Context().Done()
				panic(errGone)
			})
			first.post("ada", s, "Hi.")
			dead.died(t)
			second := w.start("one")
			given := make(chan *play, 1)
			w.harness.expect(func(p *play) { given <- p; sayHello(p) })
			second.run("ada", s, second.post("ada", s, "More.").GetRunId())
			if got := strings.Join(shown(<-given), "|"); strings.Contains(got, "In short.") != used {
				t.Errorf("the next run is given %q", got)
			}
			spend, err := second.Sessions.GetSpend(as(t, "ada"), &apiv1.GetSpendRequest{})
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range spend.GetGroups() {
				if g.GetModel() != "cheap:m" {
					continue
				}
				want := int64(50)
				if used {
					want = 40
				}
				if sum := g.GetSum(); sum.GetTokens() != want || (sum.GetEstimated() == 1) == used {
					t.Errorf("spent %v, want %d tokens", sum, want)
				}
				return
			}
			t.Errorf("the summarizer's call is lost: %v", spend)
		})
	}
}
