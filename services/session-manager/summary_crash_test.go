//go:build faults

package sessionmanager

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/crash"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

// After a kill between the paid call of a summarizer and the storage of its summary, the call counts as estimated
// and the conversation is complete. After a kill once the summary is stored, the summary, its cost and its use
// remain.
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

// If the process is killed at any point after the request of a summary between runs was audited, and before the
// compaction is stored, the summary is lost. The next process ends the compaction by itself: the call counts with
// its reservation, the compaction as failed, and the conversation is complete. A stored compaction is used.
func TestKilledAtASummaryBetweenRuns(t *testing.T) {
	t.Parallel()
	for point, used := range map[crash.Point]bool{
		crash.RequestAudited: false, crash.SummaryPaid: false, crash.CompactionStored: true,
	} {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.primary("")
			w.network(t)
			w.harness.compacts = func(c compactCall) (*harnessv1.CompactResponse, error) {
				resp, err := compactsAll(c)
				if c.ask(summaryCall()) != nil {
					resp.Calls = []*harnessv1.RunEvent{{Event: &harnessv1.RunEvent_CallSettled{
						CallSettled: &harnessv1.CallSettled{Call: 1, Amount: &harnessv1.Amount{Tokens: 40, Calls: 1}},
					}}}
				}
				return resp, err
			}
			first := w.start("zero")
			s := first.session("ada")
			first.run("ada", s, first.post("ada", s, "Hi.").GetRunId())
			first.Stop()
			second, killed := w.spawn(t, "one", crash.Variable+"="+string(point))
			_, _ = second.Sessions.CompactSession(as(t, "ada"), &apiv1.CompactSessionRequest{SessionId: s})
			killed.died(t)
			third := w.start("one")
			want := int64(900)
			if used {
				want = 40
			}
			eventually(t, "the summary is spent", func() error {
				spend, err := third.Sessions.GetSpend(as(t, "ada"), &apiv1.GetSpendRequest{})
				for _, g := range spend.GetGroups() {
					if sum := g.GetSum(); g.GetModel() == "cheap:m" && sum.GetTokens() == want &&
						(sum.GetEstimated() == 1) != used {
						return err
					}
				}
				return fmt.Errorf("spent %v (%v), want %d tokens", spend, err, want)
			})
			if lost := slices.Contains(third.recorded("ada", s), "compaction.failed"); lost == used {
				t.Errorf("recorded %v", third.recorded("ada", s))
			}
			if got := strings.Join(third.history(t, s), "|"); strings.Contains(got, "The answer is gone.") != used {
				t.Errorf("the next run is given %q", got)
			}
		})
	}
}
