package harnessrun

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
	"kaged.dev/services/session-manager/internal/core/frames"
	"kaged.dev/services/session-manager/internal/core/localconfig"
	"kaged.dev/services/session-manager/internal/core/record"
	"kaged.dev/services/session-manager/internal/core/runs"
	"kaged.dev/services/session-manager/internal/core/transcript"
	"kaged.dev/services/session-manager/internal/wire"
)

// stream implements [runs.Stream].
type stream struct {
	grpc   grpc.BidiStreamingClient[harnessv1.RunRequest, harnessv1.RunEvent]
	ctx    context.Context
	cancel context.CancelCauseFunc

	sending sync.Mutex // one request at a time
}

func (s *stream) send(req *harnessv1.RunRequest) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	return s.grpc.Send(req)
}

// begin sends what the run depends on, the conversation in pieces.
func (s *stream) begin(start *harnessv1.RunStart, history []transcript.Message) error {
	if err := s.send(&harnessv1.RunRequest{Request: &harnessv1.RunRequest_Start{Start: start}}); err != nil {
		return s.refused(err)
	}
	for _, piece := range pieces(history) {
		req := &harnessv1.RunRequest{Request: &harnessv1.RunRequest_History{History: &harnessv1.History{Messages: piece}}}
		if err := s.send(req); err != nil {
			return s.refused(err)
		}
	}
	err := s.send(&harnessv1.RunRequest{Request: &harnessv1.RunRequest_Begin{Begin: &harnessv1.RunBegin{Hold: true}}})
	return s.refused(err)
}

// refused returns why the harness hung up: a stream that was ended says so to its sender only by io.EOF.
func (s *stream) refused(err error) error {
	if !errors.Is(err, io.EOF) {
		return err
	}
	if _, err = s.grpc.Recv(); err == nil {
		err = fault.New(fault.Internal, "The harness ended the run before it began.")
	}
	return err
}

// pieces cuts a conversation into messages of about a chunk. Results of one turn may be more than one message can hold;
// they come as several, which is the same to the harness.
func pieces(history []transcript.Message) [][]*harnessv1.Message {
	var out [][]*harnessv1.Message
	var piece []*harnessv1.Message
	room := chunk
	for _, m := range history {
		for _, part := range apart(wire.Message(m)) {
			size := proto.Size(part)
			if size > room && len(piece) > 0 {
				out = append(out, piece)
				piece, room = nil, chunk
			}
			piece = append(piece, part)
			room -= size
		}
	}
	if len(piece) > 0 {
		out = append(out, piece)
	}
	return out
}

// apart cuts a message of results that is too large between its blocks.
func apart(m *harnessv1.Message) []*harnessv1.Message {
	if m.GetRole() != harnessv1.Role_ROLE_TOOL || proto.Size(m) <= chunk {
		return []*harnessv1.Message{m}
	}
	var out []*harnessv1.Message
	room := 0
	for _, b := range m.GetBlocks() {
		size := proto.Size(b)
		if size > room {
			out = append(out, &harnessv1.Message{Role: m.GetRole(), MessageId: m.GetMessageId()})
			room = chunk
		}
		last := out[len(out)-1]
		last.Blocks = append(last.Blocks, b)
		room -= size
	}
	return out
}

// Go implements [runs.Stream]. A run that ended while it got ready is no failure here: its last event says why.
func (s *stream) Go() error {
	err := s.send(&harnessv1.RunRequest{Request: &harnessv1.RunRequest_Go{Go: &harnessv1.RunGo{}}})
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// Stored implements [runs.Stream].
func (s *stream) Stored(half runs.Half, changed map[string]localconfig.Route) error {
	stored := &harnessv1.StepStored{Step: int32(half.Step), Part: harnessv1.StepPart_STEP_PART_TURN, Routes: routes(changed)}
	if half.Results {
		stored.Part = harnessv1.StepPart_STEP_PART_RESULTS
	}
	return s.send(&harnessv1.RunRequest{Request: &harnessv1.RunRequest_Stored{Stored: stored}})
}

var verdicts = map[record.ApprovalState]harnessv1.ApprovalVerdict{
	record.ApprovalApproved: harnessv1.ApprovalVerdict_APPROVAL_VERDICT_APPROVED,
	record.ApprovalDenied:   harnessv1.ApprovalVerdict_APPROVAL_VERDICT_DENIED,
	record.ApprovalExpired:  harnessv1.ApprovalVerdict_APPROVAL_VERDICT_EXPIRED,
}

// Decide implements [runs.Stream].
func (s *stream) Decide(d runs.Decision) error {
	return s.send(&harnessv1.RunRequest{Request: &harnessv1.RunRequest_Decision{Decision: &harnessv1.ApprovalDecision{
		ApprovalId: d.ApprovalID, Verdict: verdicts[d.State], Comment: d.Comment,
	}}})
}

// Cancel implements [runs.Stream].
func (s *stream) Cancel(reason string) error {
	return s.send(&harnessv1.RunRequest{Request: &harnessv1.RunRequest_Cancel{Cancel: &harnessv1.RunCancel{Reason: reason}}})
}

// Recv implements [runs.Stream]. An event this build does not know is passed over.
func (s *stream) Recv() (runs.Event, error) {
	for {
		ev, err := s.grpc.Recv()
		if err != nil {
			err = because(s.ctx, err)
			s.cancel(nil)
			if errors.Is(err, io.EOF) {
				err = fault.New(fault.Internal, "The harness ended the run without saying how.")
			}
			return nil, err
		}
		if out := event(ev); out != nil {
			if _, last := out.(runs.Finished); last {
				s.cancel(nil)
			}
			return out, nil
		}
	}
}

var outcomes = map[harnessv1.Outcome]runs.Outcome{
	harnessv1.Outcome_OUTCOME_COMPLETED: runs.Completed, harnessv1.Outcome_OUTCOME_CANCELLED: runs.Cancelled,
	harnessv1.Outcome_OUTCOME_FAILED: runs.Failed, harnessv1.Outcome_OUTCOME_UNSPECIFIED: runs.Failed,
}

func event(ev *harnessv1.RunEvent) runs.Event {
	switch e := ev.GetEvent().(type) {
	case *harnessv1.RunEvent_Delta:
		return runs.Delta{Text: e.Delta.GetText(), Thinking: e.Delta.GetKind() == harnessv1.DeltaKind_DELTA_KIND_THINKING}
	case *harnessv1.RunEvent_MessageStart:
		m := e.MessageStart
		return runs.Started{Provider: m.GetProvider(), Model: m.GetModel(), Driver: m.GetDriver(), At: m.GetStartedAt()}
	case *harnessv1.RunEvent_ToolCall:
		return runs.ToolStarted{Step: int(e.ToolCall.GetStep()), Call: wire.FromCall(e.ToolCall.GetCall())}
	case *harnessv1.RunEvent_ToolOutput:
		return runs.ToolOutput{CallID: e.ToolOutput.GetToolCallId(), Stream: e.ToolOutput.GetStream(), Text: e.ToolOutput.GetText()}
	case *harnessv1.RunEvent_ToolResult:
		r := e.ToolResult
		return runs.ToolFinished{
			Step: int(r.GetStep()), Result: wire.FromResult(r.GetResult()), Input: r.GetInput(), DurationMS: r.GetDurationMs(),
			Audit: wire.FromAudit(r.GetAudit()),
		}
	case *harnessv1.RunEvent_Turn:
		return runs.TurnDone{Turn: wire.FromTurn(e.Turn), Wait: e.Turn.GetWait()}
	case *harnessv1.RunEvent_Approval:
		a := e.Approval
		return runs.Asked{
			ID: a.GetApprovalId(), CallID: a.GetToolCallId(), Subject: wire.FromSubject(a.GetSubject()), Audit: wire.FromAudit(a.GetAudit()),
		}
	case *harnessv1.RunEvent_StepDone:
		return runs.StepDone{Step: int(e.StepDone.GetStep())}
	case *harnessv1.RunEvent_Audit:
		return runs.Recorded{Record: wire.FromRecord(e.Audit)}
	case *harnessv1.RunEvent_Cage:
		c := e.Cage
		return runs.CageChanged{
			AgentPath: c.GetAgentPath(), Status: record.CageStatus(c.GetStatus()), Tier: c.GetTier(), BestEffort: c.GetBestEffort(),
			Summary: c.GetSummary(), Ended: c.GetEnded(), Audit: wire.FromRecord(c.GetAudit()), Notes: c.GetNotes(), Found: findings(c.GetFound()),
		}
	case *harnessv1.RunEvent_Network:
		a := e.Network.GetAttempt()
		return runs.NetworkTried{
			AgentPath: e.Network.GetAgentPath(), At: a.GetAt(), Target: a.GetTarget(), Allowed: a.GetAllowed(), Rule: a.GetRule(),
			Count: a.GetCount(), Audit: wire.FromRecord(e.Network.GetAudit()),
		}
	case *harnessv1.RunEvent_AuditHead:
		head := runs.HeadMoved{}
		head.Head.Hash, head.Head.Items = e.AuditHead.GetHash(), e.AuditHead.GetItems()
		return head
	case *harnessv1.RunEvent_Retry:
		return runs.Retried{
			Error: fault.FromProto(e.Retry.GetError()), Attempt: int(e.Retry.GetAttempt()), DelayMS: e.Retry.GetDelayMs(),
			Provider: e.Retry.GetProvider(), Model: e.Retry.GetModel(),
		}
	case *harnessv1.RunEvent_Finished:
		return finished(e.Finished)
	}
	return nil
}

func findings(list []*commonv1.CageFinding) (found []frames.CageFinding) {
	for _, f := range list {
		found = append(found, frames.CageFinding{Kind: f.GetKind(), Path: f.GetPath(), Text: f.GetText()})
	}
	return found
}

func finished(f *harnessv1.RunFinished) runs.Finished {
	out := runs.Finished{
		Outcome: outcomes[f.GetOutcome()], Stop: wire.FromStop(f.GetStopReason()), Usage: wire.FromUsage(f.GetUsage()),
		Stats: wire.FromStats(f.GetStats()), Error: fault.FromProto(f.GetError()), Closing: f.GetClosingText(),
		Partial: wire.FromBlocks(f.GetPartial()), ErrorStatus: int(f.GetDetail().GetFields()["status"].GetNumberValue()),
	}
	if out.Stop == "" {
		out.Stop = llm.StopError
	}
	return out
}
