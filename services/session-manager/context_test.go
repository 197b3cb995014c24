package sessionmanager

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"kaged.dev/pkg/fault"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

// compactCall is a request to the harness between runs.
type compactCall struct {
	start   *harnessv1.RunStart
	history []*harnessv1.Message
	order   *harnessv1.CompactOrder
	// ask requests a model call and returns the answer.
	ask func(*harnessv1.CallWanted) *harnessv1.CallGranted
}

// Compact answers with the test's function; by default it returns an estimate.
func (h *fakeHarness) Compact(stream grpc.BidiStreamingServer[harnessv1.CompactRequest,
	harnessv1.CompactResponse],
) error {
	c := compactCall{ask: func(w *harnessv1.CallWanted) *harnessv1.CallGranted {
		err := stream.Send(&harnessv1.CompactResponse{
			Wanted: &harnessv1.RunEvent{Event: &harnessv1.RunEvent_CallWanted{CallWanted: w}},
		})
		if err != nil {
			return nil
		}
		req, err := stream.Recv()
		if err != nil {
			return nil
		}
		return req.GetGranted()
	}}
	for c.order == nil {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		switch r := req.GetRequest().(type) {
		case *harnessv1.CompactRequest_Start:
			c.start = r.Start
		case *harnessv1.CompactRequest_History:
			c.history = append(c.history, r.History.GetMessages()...)
		case *harnessv1.CompactRequest_Order:
			c.order = r.Order
		}
	}
	h.mu.Lock()
	answer := h.compacts
	h.mu.Unlock()
	if answer == nil {
		answer = func(compactCall) (*harnessv1.CompactResponse, error) {
			return &harnessv1.CompactResponse{Estimate: &harnessv1.ContextEstimate{
				InputTokens: 300, WindowTokens: 1000, ReservedTokens: 200,
			}}, nil
		}
	}
	resp, err := answer(c)
	if err != nil {
		return err
	}
	return stream.Send(resp)
}

// compactsAll returns a compaction that supersedes the first answer.
func compactsAll(c compactCall) (*harnessv1.CompactResponse, error) {
	stage := func(phase harnessv1.CompactionPhase) *harnessv1.Compaction {
		name := strings.ToLower(strings.TrimPrefix(phase.String(), "COMPACTION_PHASE_"))
		return &harnessv1.Compaction{
			Phase: phase, CompactionId: c.order.GetCompactionId(), Trigger: "operator_manual", Strategy: "drop",
			BeforeTokens: 900,
			WindowTokens: 1000, UpperThreshold: 0.85, LowerThreshold: 0.6, At: 1700000000000,
			Audit: auditRecords("compaction." + name)[0],
		}
	}
	done := stage(harnessv1.CompactionPhase_COMPACTION_PHASE_COMPLETED)
	done.AfterTokens, done.Turns, done.Messages, done.Summary = 500, 1, 1, "The answer is gone."
	for _, m := range c.history {
		if m.GetRole() == harnessv1.Role_ROLE_ASSISTANT {
			done.Spans = []*harnessv1.Span{{MessageId: m.GetMessageId()}}
			break
		}
	}
	return &harnessv1.CompactResponse{
		Estimate: &harnessv1.ContextEstimate{InputTokens: 700, WindowTokens: 1000, ReservedTokens: 200},
		Stages:   []*harnessv1.Compaction{stage(harnessv1.CompactionPhase_COMPACTION_PHASE_TRIGGERED), done},
	}, nil
}

// history returns the conversation that the next run of a session receives.
func (n *node) history(t *testing.T, session string) []string {
	t.Helper()
	given := make(chan *play, 1)
	n.w.harness.expect(func(p *play) { given <- p; sayHello(p) })
	n.run("ada", session, n.post("ada", session, "More.").GetRunId())
	return shown(<-given)
}

// An operator's compaction of an idle session supersedes the messages that its dry run names, is listed with them,
// and can be judged and undone. Later runs get the compacted conversation, after the undo the full one
// (A-COMP-POST-01..05, A-COMP-LIST-01, A-COMP-GET-01, A-COMP-PATCH-01, A-COMP-PATCH-02,
// H-COMPACT-MAN-01, H-COMPACT-REC-01, H-COMPACT-REC-02, H-COMPACT-REC-04, H-COMPACT-REC-06, H-COMPACT-AUD-05).
func TestAnOperatorCompacts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.harness.compacts = compactsAll
	n := w.start("a")
	s := n.session("ada")
	n.run("ada", s, n.post("ada", s, "Hi.").GetRunId())
	answer := n.messages("ada", s)[1].GetId()
	ctx := as(t, "ada")

	dry, err := n.Sessions.ProposeCompaction(ctx, &apiv1.ProposeCompactionRequest{SessionId: s})
	if err != nil {
		t.Fatal(err)
	}
	p := dry.GetAnswer().GetProposed()
	if !slices.Equal(p.GetSupersededMessageIds(), []string{answer}) || p.GetAfterEstimate() != 0.5 ||
		p.GetThresholdEstimate() != 0.9 ||
		len(p.GetMessages()) != 3 || p.GetMessages()[1].GetAction() != "summary" ||
		p.GetMessages()[2].GetAction() != "supersede" {
		t.Errorf("proposed %v", p)
	}
	if got := len(n.messages("ada", s)); got != 2 {
		t.Errorf("a dry run left %d messages", got)
	}
	if slices.ContainsFunc(n.recorded("ada", s), func(r string) bool { return strings.HasPrefix(r, "compaction.") }) {
		t.Error("a dry run was recorded")
	}

	begun, err := n.Sessions.CompactSession(ctx, &apiv1.CompactSessionRequest{SessionId: s})
	if err != nil || begun.GetDryRun() || begun.GetTrigger() != "operator_manual" || begun.GetAgentPath() != "primary" {
		t.Fatalf("%v, %v", begun, err)
	}
	id := begun.GetCompactionId()
	var done *apiv1.SessionCompaction
	eventually(t, "the compaction is stored", func() error {
		got, err := n.Sessions.GetCompaction(ctx, &apiv1.GetCompactionRequest{SessionId: s, CompactionId: id})
		done = got.GetCompaction()
		return err
	})
	if done.RunId != nil || done.GetSupersededCount() != 1 || len(done.GetSupersededMessages()) != 1 ||
		done.GetSupersededMessages()[0].GetId() != answer || done.GetSummaryMessage().GetContent() != "The answer is gone." ||
		done.OperatorFlag != nil || done.GetFallbackOccurred() {
		t.Errorf("%v", done)
	}
	list, err := n.Sessions.ListCompactions(ctx, &apiv1.ListCompactionsRequest{SessionId: s, AgentPath: "primary"})
	if err != nil || len(list.GetItems()) != 1 || list.GetItems()[0].GetId() != id {
		t.Fatalf("listed %v, %v", list, err)
	}
	if c := list.GetItems()[0]; c.GetAfterEstimate() >= c.GetThresholdEstimate() || c.GetSessionId() != s ||
		c.GetTrigger() != "operator_manual" || c.GetStrategy() != "drop" || c.GetSummary() != "The answer is gone." ||
		c.SummaryMessageId != nil || c.GetCompactorCost() != nil || c.GetPluginCost() != nil || c.GetCreatedAt() == 0 {
		t.Errorf("listed %v", c) // A-COMP-LIST-02
	}
	if other, err := n.Sessions.ListCompactions(ctx, &apiv1.ListCompactionsRequest{
		SessionId: s,
		AgentPath: "x",
	}); err != nil || len(other.GetItems()) != 0 {
		t.Errorf("of another agent: %v, %v", other, err)
	}
	want := []string{"user@0: Hi.", "system@0: The answer is gone.", "user@0: More."}
	if got := n.history(t, s); !slices.Equal(got, want) {
		t.Errorf("the next run is given %q, want %q", got, want)
	}

	judged, err := n.Sessions.UpdateCompaction(ctx, &apiv1.UpdateCompactionRequest{
		SessionId: s, CompactionId: id, Flag: structpb.NewStringValue("bad"), Notes: structpb.NewStringValue("ü!"),
	})
	if err != nil || judged.GetCompaction().GetOperatorFlag() != "bad" ||
		judged.GetCompaction().GetOperatorNotes() != "ü!" {
		t.Errorf("%v, %v", judged, err)
	}
	judged, err = n.Sessions.UpdateCompaction(ctx, &apiv1.UpdateCompactionRequest{
		SessionId: s, CompactionId: id, Flag: structpb.NewNullValue(),
	})
	if err != nil || judged.GetCompaction().OperatorFlag != nil || judged.GetCompaction().GetOperatorNotes() != "ü!" {
		t.Errorf("%v, %v", judged, err)
	}

	undone, err := n.Sessions.UndoCompaction(ctx, &apiv1.UndoCompactionRequest{SessionId: s, CompactionId: id})
	if err != nil || undone.GetCompaction().GetUndoneAt() == 0 {
		t.Errorf("%v, %v", undone, err)
	}
	if got := n.history(t, s); len(got) == 0 || !strings.HasPrefix(got[1], "assistant@") {
		t.Errorf("after the undo a run is given %q", got)
	}
	_, err = n.Sessions.UndoCompaction(ctx, &apiv1.UndoCompactionRequest{SessionId: s, CompactionId: id})
	if f := refused(t, err, fault.Conflict); f.Details["reason"] != "already_undone" {
		t.Errorf("%v", f.Details)
	}
	if records := n.recorded("ada", s); times(records, "compaction.flagged") != 2 {
		t.Errorf("recorded %v", records)
	}
	for _, event := range []string{
		`compaction.flagged {"session_id":"` + s + `","compaction_id":"` + id + `","flag":"bad","notes_length":2}`,
		`compaction.undone {"session_id":"` + s + `","compaction_id":"` + id + `","agent_path":"primary"}`,
	} {
		eventually(t, event, func() error {
			events, err := w.tryChannel(s, "events")
			if err == nil && !slices.Contains(events, event) {
				err = fmt.Errorf("events has %q", events)
			}
			return err
		})
	}
}

// An invalid compaction, judgement, undo or mark is refused with its reason (A-COMP-POST-06).
func TestRefusedCompactions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.harness.compacts = compactsAll
	n := w.start("a")
	s := n.session("ada")
	ctx := as(t, "ada")
	_, err := n.Sessions.CompactSession(ctx, &apiv1.CompactSessionRequest{SessionId: s, Strategy: proto.String("foo")})
	refused(t, err, fault.ValidationFailed)
	_, err = n.Sessions.CompactSession(ctx, &apiv1.CompactSessionRequest{
		SessionId: s,
		AgentPath: proto.String("primary.subagents.x"),
	})
	refused(t, err, fault.NotFound)
	_, err = n.Sessions.CompactSession(as(t, "eve"), &apiv1.CompactSessionRequest{SessionId: s})
	refused(t, err, fault.NotFound)
	_, err = n.Sessions.GetCompaction(ctx, &apiv1.GetCompactionRequest{SessionId: s, CompactionId: "cmp_none"})
	refused(t, err, fault.NotFound)
	_, err = n.Sessions.UpdateCompaction(ctx, &apiv1.UpdateCompactionRequest{SessionId: s, CompactionId: "cmp_none"})
	refused(t, err, fault.BadRequest)
	_, err = n.Sessions.UpdateCompaction(ctx, &apiv1.UpdateCompactionRequest{
		SessionId: s, CompactionId: "cmp_none", Flag: structpb.NewStringValue("x"),
	})
	refused(t, err, fault.ValidationFailed)
	_, err = n.Sessions.UpdateCompaction(ctx, &apiv1.UpdateCompactionRequest{
		SessionId: s, CompactionId: "cmp_none", Notes: structpb.NewStringValue(strings.Repeat("ü", 4097)),
	})
	refused(t, err, fault.ValidationFailed)
	_, err = n.Sessions.GetLedger(ctx, &apiv1.GetLedgerRequest{SessionId: s, Kind: "done"})
	refused(t, err, fault.ValidationFailed)
	_, err = n.Sessions.UpdateMessage(ctx, &apiv1.UpdateMessageRequest{
		SessionId: s, MessageId: "x",
		AlwaysKeep: proto.Bool(true),
	})
	refused(t, err, fault.NotFound)
	_, err = n.Sessions.UpdateMessage(ctx, &apiv1.UpdateMessageRequest{SessionId: s, MessageId: "x"})
	refused(t, err, fault.BadRequest)

	w.harness.expect(func(p *play) { <-p.stream.Context().Done(); panic(errGone) })
	n.post("ada", s, "Hi.")
	w.harness.next()
	_, err = n.Sessions.CompactSession(ctx, &apiv1.CompactSessionRequest{SessionId: s})
	if f := refused(t, err, fault.Conflict); f.Details["reason"] != "run_active" {
		t.Errorf("%v", f.Details)
	}
}

// If a conversation changes during its compaction, the compaction fails with a reason and the conversation stays
// complete.
func TestASessionMovesOnDuringACompaction(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at, goOn := make(chan struct{}), make(chan struct{})
	w.harness.compacts = func(c compactCall) (*harnessv1.CompactResponse, error) {
		close(at)
		<-goOn
		return compactsAll(c)
	}
	n := w.start("a")
	s := n.session("ada")
	n.run("ada", s, n.post("ada", s, "Hi.").GetRunId())
	if _, err := n.Sessions.CompactSession(as(t, "ada"), &apiv1.CompactSessionRequest{SessionId: s}); err != nil {
		t.Fatal(err)
	}
	<-at
	_, err := n.Sessions.CompactSession(as(t, "ada"), &apiv1.CompactSessionRequest{SessionId: s})
	if f := refused(t, err, fault.Conflict); f.Details["reason"] != "compaction_active" {
		t.Errorf("%v", f.Details)
	}
	n.run("ada", s, n.post("ada", s, "More.").GetRunId())
	close(goOn)
	eventually(t, "the failure is recorded", func() error {
		if records := n.recorded("ada", s); !slices.Contains(records, "compaction.failed") {
			return fmt.Errorf("recorded %q", records)
		}
		return nil
	})
	if list, err := n.Sessions.ListCompactions(as(t, "ada"), &apiv1.ListCompactionsRequest{SessionId: s}); err != nil ||
		len(list.GetItems()) != 0 {
		t.Errorf("listed %v, %v", list, err)
	}
}

// The ledger of a session is stored with its steps, listed with filters, and given to later runs in any process. A
// todo is done once a done entry refers to it.
func TestTheLedgerIsStored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s := n.session("ada")
	w.harness.expect(func(p *play) {
		p.model()
		p.turn(1, true, text("I look."), call("c", "file.read", `{}`))
		p.send(&harnessv1.RunEvent{Event: &harnessv1.RunEvent_ToolResult{ToolResult: &harnessv1.ToolCallFinished{
			Step: 1, Result: &harnessv1.ToolResult{ToolCallId: "c", Name: "file.read", Content: "x"}, Input: "{}",
			Ledger: []*harnessv1.LedgerEntry{
				{Number: 1, At: 5, Step: 1, AgentPath: "primary", Kind: "todo", Text: "write\x00 tests"},
				{Number: 2, At: 6, Step: 1, AgentPath: "primary", Kind: "command", Command: "go test", ExitCode: proto.Int32(0)},
				{Number: 3, At: 7, Step: 1, AgentPath: "primary", Kind: "command", Command: "sleep 9"},
				{Number: 4, At: 8, Step: 1, AgentPath: "primary", Kind: "file_read", Path: "a.go", Sha256: "aa"},
				{Number: 5, At: 9, Step: 1, AgentPath: "primary", Kind: "done", Ref: 1},
			},
		}}})
		p.done(1)
		p.turn(2, false, text("Done."))
		p.complete(2)
	})
	run := n.post("ada", s, "Hi.").GetRunId()
	n.run("ada", s, run)
	all, err := n.Sessions.GetLedger(as(t, "ada"), &apiv1.GetLedgerRequest{SessionId: s})
	if err != nil || len(all.GetItems()) != 4 {
		t.Fatalf("%v, %v", all, err)
	}
	if e := all.GetItems()[0]; !e.GetDone() || e.GetRunId() != run || e.GetStep() != 1 || !strings.HasPrefix(e.GetText(),
		"write") {
		t.Errorf("todo %v", e)
	}
	if a, b := all.GetItems()[1], all.GetItems()[2]; a.ExitCode == nil || a.GetExitCode() != 0 || b.ExitCode != nil {
		t.Errorf("commands %v, %v", a, b)
	}
	page, err := n.Sessions.GetLedger(as(t, "ada"), &apiv1.GetLedgerRequest{SessionId: s, Kind: "command", Limit: 1})
	if err != nil || len(page.GetItems()) != 1 || !page.GetHasMore() {
		t.Fatalf("%v, %v", page, err)
	}
	page, err = n.Sessions.GetLedger(as(t, "ada"), &apiv1.GetLedgerRequest{
		SessionId: s, Kind: "command", Limit: 1, Cursor: page.GetNextCursor(),
	})
	if err != nil || len(page.GetItems()) != 1 || page.GetItems()[0].GetSeq() != 3 || page.GetHasMore() {
		t.Errorf("%v, %v", page, err)
	}
	n.Stop()
	n = w.start("b")
	given := make(chan *play, 1)
	w.harness.expect(func(p *play) { given <- p; sayHello(p) })
	n.run("ada", s, n.post("ada", s, "More.").GetRunId())
	if l := (<-given).start.GetLedger(); l.GetLast() != 5 || len(l.GetEntries()) != 5 || !l.GetEntries()[0].GetDone() {
		t.Errorf("the next run is given %v", l)
	}
}

// Runs receive a message that the operator marked with the mark.
func TestAMarkedMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s := n.session("ada")
	n.run("ada", s, n.post("ada", s, "Hi.").GetRunId())
	answer := n.messages("ada", s)[1].GetId()
	marked, err := n.Sessions.UpdateMessage(as(t, "ada"), &apiv1.UpdateMessageRequest{
		SessionId: s, MessageId: answer, AlwaysKeep: proto.Bool(true),
	})
	if err != nil || !marked.GetMessage().GetAlwaysKeep() || marked.GetMessage().GetId() != answer {
		t.Errorf("%v, %v", marked, err)
	}
	given := make(chan *play, 1)
	w.harness.expect(func(p *play) { given <- p; sayHello(p) })
	n.run("ada", s, n.post("ada", s, "More.").GetRunId())
	for _, m := range (<-given).history {
		if want := m.GetMessageId() == answer; m.GetAlwaysKeep() != want {
			t.Errorf("message %s is kept: %v", m.GetMessageId(), m.GetAlwaysKeep())
		}
	}
}
