package sessionmanager

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"kaged.dev/pkg/fault"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

// compacts reports a stage of a compaction.
func (p *play) compacts(c *harnessv1.Compaction) {
	c.CompactionId, c.Trigger, c.Strategy, c.At = "cmp_1", "threshold_crossed", "drop", 1700000000000
	phase := strings.ToLower(strings.TrimPrefix(c.GetPhase().String(), "COMPACTION_PHASE_"))
	c.Audit = auditRecords("compaction." + phase)[0]
	p.send(&harnessv1.RunEvent{Event: &harnessv1.RunEvent_Compaction{Compaction: c}})
}

// compacting is a run of two steps and an answer whose compaction supersedes the first step and an earlier message.
func compacting(earlier string) func(*play) {
	return func(p *play) {
		p.model()
		for step := range int32(2) {
			id := fmt.Sprint("c", step+1)
			p.turn(step+1, true, text("Reading "+id+"."), call(id, "file.read", `{"path":"a"}`))
			p.tool(step+1, id, "file.read", `{"path":"a"}`, "content "+id)
			p.done(step + 1)
		}
		p.compacts(&harnessv1.Compaction{Phase: harnessv1.CompactionPhase_COMPACTION_PHASE_TRIGGERED, BeforeTokens: 90})
		p.compacts(&harnessv1.Compaction{
			Phase:        harnessv1.CompactionPhase_COMPACTION_PHASE_COMPLETED,
			BeforeTokens: 90, AfterTokens: 50, WindowTokens: 100,
			Spans: []*harnessv1.Span{{MessageId: earlier}, {MessageId: p.start.GetMessageId(), FromStep: 1, ToStep: 1}},
			Turns: 2, Messages: 3, Summary: "The older part is gone.",
		})
		p.turn(3, false, text("Done."))
		p.complete(3)
	}
}

// shown returns the messages that a run received, each with its step.
func shown(p *play) (out []string) {
	for _, m := range p.history {
		line := strings.ToLower(strings.TrimPrefix(m.GetRole().String(), "ROLE_")) + fmt.Sprintf("@%d:", m.GetStep())
		for _, b := range m.GetBlocks() {
			line += " " + b.GetText().GetText() + b.GetToolCall().GetId() + b.GetToolResult().GetContent()
		}
		out = append(out, line)
	}
	return out
}

// A compaction is stored with its frame and its audit record. Later runs, also in another process, get the
// conversation without the superseded parts and with the summary in their place (H-COMPACT-AUD-01,
// H-COMPACT-AUD-02, A-COMP-WS-01, A-COMP-WS-02). The messages themselves stay stored.
func TestCompactionsAreStored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.primary("include_tool_results_in_context: true")
	n := w.start("a")
	s := n.session("ada")
	n.run("ada", s, n.post("ada", s, "Hi.").GetRunId()) // answers Hello
	first := n.messages("ada", s)
	w.harness.expect(compacting(first[1].GetId()))
	run := n.post("ada", s, "Work.").GetRunId()
	n.run("ada", s, run)

	events := w.await(s, "events", `session.state {"state":"idle"}`)
	for _, want := range []string{
		`compaction.triggered {"session_id":"` + s + `","compaction_id":"cmp_1","agent_path":"primary",` +
			`"trigger":"threshold_crossed","strategy":"drop","threshold_estimate":90,"run_id":"` + run + `"}`,
		`compaction.completed {"session_id":"` + s + `","compaction_id":"cmp_1","agent_path":"primary",` +
			`"superseded_count":3,"summary_message_id":null,"after_estimate":50,"duration_ms":0,"run_id":"` + run + `"}`,
	} {
		if !slices.Contains(events, want) {
			t.Errorf("no %s in %q", want, events)
		}
	}
	recorded, err := n.Audit.QueryAudit(as(t, "ada"), &apiv1.QueryAuditRequest{Session: s, EventType: "compaction.*"})
	if err != nil || len(recorded.GetItems()) != 2 {
		t.Errorf("recorded %v, %v", recorded, err)
	}
	for i, m := range n.messages("ada", s) {
		if want := i == 1; m.GetSuperseded() != want {
			t.Errorf("message %d is superseded: %v, want %v", i, m.GetSuperseded(), want)
		}
	}

	n.Stop()
	n = w.start("b")
	given := make(chan *play, 1)
	w.harness.expect(func(p *play) { given <- p; sayHello(p) })
	n.run("ada", s, n.post("ada", s, "More.").GetRunId())
	p := <-given
	want := []string{
		"user@0: Hi.", "system@0: The older part is gone.", "user@0: Work.", "assistant@2: Reading c2. c2",
		"tool@2: content c2", "assistant@3: Done.", "user@0: More.",
	}
	if got := shown(p); !slices.Equal(got, want) {
		t.Errorf("the next run is given\n%q, want\n%q", got, want)
	}
	if n := p.start.GetSupersededTurns(); n != 2 {
		t.Errorf("%d superseded turns, want 2", n)
	}
}

// A failed or useless compaction is shown and audited, and supersedes no message (H-COMPACT-AUD-03,
// H-COMPACT-AUD-04, H-COMPACT-REC-07, A-COMP-WS-03).
func TestOtherStagesOfCompactions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s := n.session("ada")
	w.harness.expect(func(p *play) {
		p.compacts(&harnessv1.Compaction{
			Phase: harnessv1.CompactionPhase_COMPACTION_PHASE_FAILED, Fallback: "drop", Reason: "It is away.",
		})
		p.compacts(&harnessv1.Compaction{
			Phase: harnessv1.CompactionPhase_COMPACTION_PHASE_NOOP, Reason: "No message may go.",
		})
		p.finish(&harnessv1.RunFinished{
			Outcome: harnessv1.Outcome_OUTCOME_FAILED, Error: fault.New(fault.ContextOverflow, "Too long.").Proto(),
		})
	})
	run := n.post("ada", s, "Hi.").GetRunId()
	n.run("ada", s, run)
	for _, want := range []string{
		`compaction.failed {"session_id":"` + s + `","compaction_id":"cmp_1","agent_path":"primary",` +
			`"attempted_strategy":"drop","fallback_strategy":"drop","reason":"It is away.","run_id":"` + run + `"}`,
		`compaction.noop {"session_id":"` + s + `","compaction_id":"cmp_1","agent_path":"primary","strategy":"drop",` +
			`"reason":"No message may go.","run_id":"` + run + `"}`,
	} {
		eventually(t, want, func() error {
			events, err := w.tryChannel(s, "events")
			if err == nil && !slices.Contains(events, want) {
				err = fmt.Errorf("events has %q", events)
			}
			return err
		})
	}
}

// After an overflow of its context window a session reports that until a run succeeds. The provider's error text
// does not enter the conversation, and a compaction by the operator lets the session continue (H-COMPACT-REACT-05,
// H-COMPACT-REACT-08).
func TestAnOverflowingSessionGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.harness.compacts = compactsAll
	n := w.start("a")
	s := n.session("ada")
	n.run("ada", s, n.post("ada", s, "Hi.").GetRunId())
	w.harness.expect(func(p *play) {
		p.finish(&harnessv1.RunFinished{
			Outcome: harnessv1.Outcome_OUTCOME_FAILED, Error: fault.New(fault.ContextOverflow, "Too long by far.").Proto(),
		})
	})
	n.run("ada", s, n.post("ada", s, "Much.").GetRunId())
	if got := n.get("ada", s).GetBlockedReason(); got != "context_overflow" {
		t.Errorf("the session is blocked by %q", got)
	}
	for _, m := range n.messages("ada", s) {
		if strings.Contains(m.GetContent(), "Too long") {
			t.Errorf("the error is a message: %v", m)
		}
	}
	if _, err := n.Sessions.CompactSession(as(t, "ada"), &apiv1.CompactSessionRequest{SessionId: s}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the compaction is stored", func() error {
		list, err := n.Sessions.ListCompactions(as(t, "ada"), &apiv1.ListCompactionsRequest{SessionId: s})
		if err == nil && len(list.GetItems()) != 1 {
			err = fmt.Errorf("%d compactions", len(list.GetItems()))
		}
		return err
	})
	if given := strings.Join(n.history(t, s), "|"); strings.Contains(given, "Too long") ||
		!strings.Contains(given, "The answer is gone.") {
		t.Errorf("the next run is given %q", given)
	}
	if got := n.get("ada", s).GetBlockedReason(); got != "" {
		t.Errorf("the session is still blocked by %q", got)
	}
}
